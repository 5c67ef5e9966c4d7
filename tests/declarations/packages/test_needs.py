"""What is read as a declaration of packages, and what is refused: nothing is fetched."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skillpouch.declarations.packages.declared_files import DependencyError, RequirementRefusedError
from skillpouch.declarations.packages.needs import NodeNeeds, PythonNeeds, declared_needs
from tests.conftest import WriteSkill
from tests.provision.packages.conftest import script_at

BLOCK = '# /// script\n# requires-python = ">=3.9"\n# dependencies = ["pandas>=2", "six"]\n# ///\n'
HASH = "0123456789abcdef" * 4


def python_needs(home: Path, name: str = "scripts/x.py") -> PythonNeeds:
    needs = declared_needs(script_at(home, name), str(home))
    assert isinstance(needs, PythonNeeds)
    return needs


def node_needs(home: Path, name: str = "scripts/x.mjs") -> NodeNeeds:
    needs = declared_needs(script_at(home, name), str(home))
    assert isinstance(needs, NodeNeeds)
    return needs


def test_a_script_without_declarations_needs_nothing(write_skill: WriteSkill) -> None:
    home = write_skill(files={"scripts/x.py": "", "scripts/x.mjs": "", "scripts/x.sh": ""})

    names = ("scripts/x.py", "scripts/x.mjs", "scripts/x.sh")
    assert [declared_needs(script_at(home, name), str(home)) for name in names] == [None] * 3


@pytest.mark.parametrize("text", ["", "# nothing\n\n", "\\\n", "--prefer-binary\n"])
def test_an_empty_list_is_no_need(text: str, write_skill: WriteSkill) -> None:
    home = write_skill(files={"scripts/x.py": "", "requirements.txt": text})

    assert declared_needs(script_at(home, "scripts/x.py"), str(home)) is None


def test_the_block_of_a_script_wins_over_a_file(write_skill: WriteSkill) -> None:
    home = write_skill(files={"scripts/x.py": BLOCK, "requirements.txt": "numpy\n"})

    needs = python_needs(home)

    assert needs.names == ("pandas>=2", "six")
    assert needs.requires_python == ">=3.9"
    assert needs.declared_in == str(home / "scripts/x.py")


def test_an_empty_block_wins_too(write_skill: WriteSkill) -> None:
    block = "# /// script\n# dependencies = []\n# ///\n"
    home = write_skill(files={"scripts/x.py": block, "requirements.txt": "numpy\n"})

    assert declared_needs(script_at(home, "scripts/x.py"), str(home)) is None


@pytest.mark.parametrize(
    "places", [["scripts/deep", "scripts", "."], ["scripts", "."], ["."], ["tools", "scripts", "."]]
)
def test_the_nearest_list_counts(places: list[str], write_skill: WriteSkill) -> None:
    script = "tools/x.py" if "tools" in places else "scripts/deep/x.py"
    lists = {f"{place}/requirements.txt": f"from{n}\n" for n, place in enumerate(places)}
    home = write_skill(files={script: "", **lists})

    assert python_needs(home, script).names == ("from0",)


def test_a_list_reads_as_pip_reads_it(write_skill: WriteSkill) -> None:
    text = f"""\ufeff# comment
        Pandas >=2  # why
        six \\
          ==1.16 \\
          --hash=sha256:{HASH} --hash sha256:{HASH[::-1]}

        --pre
        -r more.txt
        -climits.txt
        """
    home = write_skill(
        files={
            "scripts/x.py": "",
            "scripts/requirements.txt": "\n".join(line.strip(" ") for line in text.split("\n")),
            "scripts/more.txt": "idna\n-r requirements.txt\n",
            "scripts/limits.txt": "numpy<3\n",
        }
    )

    needs = python_needs(home)

    assert needs.names == ("idna", "pandas>=2", "six==1.16")
    assert [str(each) for each in needs.constraints] == ["numpy<3"]
    assert needs.requirements[2].hashes == (f"sha256:{HASH}", f"sha256:{HASH[::-1]}")
    assert needs.prereleases


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("-e .", "only packages by name"),
        ("--editable=.", "only packages by name"),
        ("./wheels/x.whl", "local path"),
        ("git+https://example.org/x", "address"),
        ("x @ https://example.org/x.whl", "address"),
        ("x --index-url https://example.org", "where packages come from"),
        ("x --global-option=build", "is not supported"),
        ("x --hash=md5:abc", "sha256"),
        ("x --hash=sha256:abc", "sha256"),
        ("--no-binary :all:", "is not supported"),
        ("--use-feature=fast-deps", "is not supported"),
        ("-r ../../outside.txt", "outside the skill"),
        ("-r https://example.org/x.txt", "address"),
        ("-c ../../outside.txt", "outside the skill"),
        ("-r absent.txt", "no file"),
        ("-r", "no file"),
        ("${PACKAGE}", "variables"),
        ("what is this", "is not a requirement"),
    ],
)
def test_a_line_that_is_not_a_package_is_refused(
    line: str, why: str, write_skill: WriteSkill
) -> None:
    home = write_skill(files={"scripts/x.py": "", "requirements.txt": f"six\n{line}\n"})
    (home.parent.parent / "outside.txt").write_text("evil\n")

    with pytest.raises(RequirementRefusedError, match=why) as caught:
        python_needs(home)

    assert caught.value.path.endswith(("requirements.txt", "outside.txt"))
    assert caught.value.hint


@pytest.mark.promise("dep-1")
@pytest.mark.parametrize(
    "line",
    [
        "--index-url https://example.org/simple",
        "--index-url=https://example.org/simple",
        "-i https://example.org/simple",
        "-ihttps://example.org/simple",
        "--extra-index-url https://example.org/simple",
        "--find-links https://example.org",
        "-f wheels",
        "--trusted-host example.org",
        "--no-index",
    ],
)
def test_a_skill_does_not_choose_where_packages_come_from(
    line: str, write_skill: WriteSkill
) -> None:
    home = write_skill(files={"scripts/x.py": "", "requirements.txt": f"{line}\nsix\n"})

    with pytest.raises(RequirementRefusedError, match="where packages come from") as caught:
        python_needs(home)

    assert caught.value.line == 1


@pytest.mark.promise("dep-1")
@pytest.mark.parametrize(
    "setting",
    [
        '[[tool.uv.index]]\n# url = "https://example.org"',
        '[tool.uv]\n# index-url = "https://example.org"',
        '[tool.uv]\n# find-links = ["x"]',
        '[tool.uv.sources]\n# six = { git = "https://example.org" }',
    ],
)
def test_nor_does_the_block_of_a_script(setting: str, write_skill: WriteSkill) -> None:
    block = f'# /// script\n# dependencies = ["six"]\n# {setting}\n# ///\n'
    home = write_skill(files={"scripts/x.py": block})

    with pytest.raises(RequirementRefusedError, match=r"tool\.uv"):
        python_needs(home)


@pytest.mark.parametrize(
    "block",
    [
        '# /// script\n# dependencies = ["x @ file:///y"]\n# ///\n',
        '# /// script\n# dependencies = ["-r x"]\n# ///\n',
        "# /// script\n# dependencies = 7\n# ///\n",
        "# /// script\n# what\n# ///\n",
        '# /// script\n# requires-python = "three"\n# ///\n',
    ],
)
def test_a_block_that_cannot_be_meant_is_refused(block: str, write_skill: WriteSkill) -> None:
    home = write_skill(files={"scripts/x.py": block, "requirements.txt": "six\n"})

    with pytest.raises(RequirementRefusedError):
        python_needs(home)


@pytest.mark.promise("dep-2")
@pytest.mark.parametrize("name", ["requirements.txt", "package.json", "package-lock.json"])
def test_no_declaration_is_read_through_a_link_that_leaves_the_skill(
    name: str, write_skill: WriteSkill, tmp_path: Path
) -> None:
    packages = '{"dependencies": {"a": "1"}}'
    files = {"scripts/x.py": "", "scripts/x.mjs": "", "package.json": packages}
    home = write_skill(files={path: text for path, text in files.items() if path != name})
    (tmp_path / "secret").write_text("six\n")
    (home / name).symlink_to(tmp_path / "secret")

    script = "scripts/x.py" if name == "requirements.txt" else "scripts/x.mjs"
    with pytest.raises(RequirementRefusedError, match="outside the skill"):
        declared_needs(script_at(home, script), str(home))


def test_a_list_that_is_a_folder_or_no_text_is_refused(write_skill: WriteSkill) -> None:
    one = write_skill("one", files={"scripts/x.py": "", "requirements.txt/a": ""})
    two = write_skill("two", files={"scripts/x.py": "", "requirements.txt": b"\xff\xfe"})

    for home in (one, two):
        with pytest.raises(RequirementRefusedError):
            python_needs(home)


def package(**fields: Any) -> str:
    return json.dumps({"name": "x", "version": "1.0.0", **fields})


def test_packages_of_npm_are_read_without_scripts_and_tools(write_skill: WriteSkill) -> None:
    text = package(
        dependencies={"lodash": "^4", "@scope/a": "npm:b@>=1 <2 || 3.x"},
        optionalDependencies={"fsevents": "*"},
        devDependencies={"typescript": "git+https://example.org/x"},
        scripts={"postinstall": "touch /tmp/ran"},
        overrides={"c": {".": "1", "d": "$lodash"}},
    )
    home = write_skill(files={"scripts/x.mjs": "", "package.json": text})

    needs = node_needs(home)

    assert needs.names == ("@scope/a@npm:b@>=1 <2 || 3.x", "fsevents@*", "lodash@^4")
    assert json.loads(needs.manifest.text) == {
        "name": "skillpouch-environment",
        "version": "0.0.0",
        "private": True,
        "dependencies": {"lodash": "^4", "@scope/a": "npm:b@>=1 <2 || 3.x"},
        "optionalDependencies": {"fsevents": "*"},
        "overrides": {"c": {".": "1", "d": "$lodash"}},
    }


def test_the_nearest_package_json_counts_even_when_it_asks_for_nothing(
    write_skill: WriteSkill,
) -> None:
    files = {"scripts/x.mjs": "", "scripts/package.json": '{"type": "module"}'}
    home = write_skill(files={**files, "package.json": package(dependencies={"a": "1"})})

    assert declared_needs(script_at(home, "scripts/x.mjs"), str(home)) is None


@pytest.mark.parametrize("place", ["node_modules/a/index.js", "scripts/node_modules/a/index.js"])
def test_shipped_packages_need_no_environment(place: str, write_skill: WriteSkill) -> None:
    text = package(dependencies={"a": "1"})
    home = write_skill(files={"scripts/x.mjs": "", "package.json": text, place: ""})

    assert declared_needs(script_at(home, "scripts/x.mjs"), str(home)) is None


@pytest.mark.promise("dep-1")
@pytest.mark.parametrize(
    "version",
    [
        "git+https://example.org/x.git",
        "github:user/x",
        "user/x",
        "https://example.org/x.tgz",
        "file:../x",
        "link:../x",
        "workspace:*",
        "npm:https://example.org/x.tgz",
        "./x",
        "~/x",
        7,
    ],
)
def test_npm_gets_packages_by_name_only(version: object, write_skill: WriteSkill) -> None:
    home = write_skill(
        files={"scripts/x.mjs": "", "package.json": package(dependencies={"a": version})}
    )

    with pytest.raises(RequirementRefusedError):
        node_needs(home)


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "{", "[" * 100_000, '{"dependencies": []}'),
        '{"dependencies": {"../x": "1"}}',
        '{"dependencies": {"a": "1"}, "overrides": {"b": "file:x"}}',
    ],
)
def test_a_package_json_that_is_none_is_refused(text: str, write_skill: WriteSkill) -> None:
    home = write_skill(files={"scripts/x.mjs": "", "package.json": text})

    with pytest.raises(DependencyError):
        node_needs(home)


def test_a_lock_file_keeps_versions_and_checksums_and_no_address(write_skill: WriteSkill) -> None:
    entry = {"version": "1.2.3", "resolved": "https://evil.example.org/a.tgz", "integrity": "x"}
    lock = {
        "lockfileVersion": 3,
        "packages": {
            "": {"dependencies": {"a": "1"}, "devDependencies": {"t": "1"}},
            "node_modules/a": {**entry, "hasInstallScript": True},
            "node_modules/@s/b/node_modules/c": entry,
            "node_modules/t": {"version": "1.0.0", "dev": True},
        },
    }
    home = write_skill(
        files={
            "scripts/x.mjs": "",
            "package.json": package(dependencies={"a": "1"}, devDependencies={"t": "1"}),
            "package-lock.json": json.dumps(lock),
        }
    )

    written = json.loads(node_needs(home).manifest.lock or "")

    plain = {"version": "1.2.3", "integrity": "x"}
    assert written["packages"] == {
        "": {"name": "skillpouch-environment", "version": "0.0.0", "dependencies": {"a": "1"}},
        "node_modules/a": plain,
        "node_modules/@s/b/node_modules/c": plain,
    }


@pytest.mark.parametrize(
    ("place", "entry"),
    [
        ("node_modules/a", {"version": "1.0.0", "link": True}),
        ("node_modules/a", {"version": "1.0.0", "resolved": "git+ssh://example.org/x"}),
        ("node_modules/a", {"version": "1.0.0", "resolved": "file:../x"}),
        ("node_modules/a", {"version": "https://example.org/x.tgz"}),
        ("node_modules/a", {}),
        ("node_modules/a", "1.0.0"),
        ("../a", {"version": "1.0.0"}),
        ("node_modules/..", {"version": "1.0.0"}),
        ("packages/a", {"version": "1.0.0"}),
    ],
)
def test_a_lock_file_that_leads_elsewhere_is_refused(
    place: str, entry: object, write_skill: WriteSkill
) -> None:
    lock = {"lockfileVersion": 3, "packages": {place: entry}}
    home = write_skill(
        files={
            "scripts/x.mjs": "",
            "package.json": package(dependencies={"a": "1"}),
            "package-lock.json": json.dumps(lock),
        }
    )

    with pytest.raises(RequirementRefusedError, match=r"package-lock\.json"):
        node_needs(home)


def test_a_lock_file_of_an_old_npm_names_the_next_step(write_skill: WriteSkill) -> None:
    home = write_skill(
        files={
            "scripts/x.mjs": "",
            "package.json": package(dependencies={"a": "1"}),
            "package-lock.json": '{"lockfileVersion": 1, "dependencies": {}}',
        }
    )

    with pytest.raises(RequirementRefusedError, match="npm install"):
        node_needs(home)


LINES = st.sampled_from(
    (
        *("six", "six==1", "-r requirements.txt", "-c requirements.txt", "\\", "# x", "--pre", ""),
        *(
            "--hash=sha256:" + HASH,
            "x --hash=sha256:" + HASH,
            "-",
            "--",
            "-r",
            "é",
            "x;'",
            "[",
            "@",
        ),
    )
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.just("1.0.0"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                (
                    "",
                    "a",
                    "node_modules/a",
                    "version",
                    "packages",
                    "dependencies",
                    "lockfileVersion",
                )
            )
            | st.text(max_size=5),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    listed=st.lists(LINES, max_size=6).map("\n".join).map(str.encode) | st.binary(max_size=50),
    manifest=VALUES | st.fixed_dictionaries({"dependencies": VALUES, "overrides": VALUES}),
    lock=VALUES | st.fixed_dictionaries({"lockfileVersion": st.just(3), "packages": VALUES}),
)
def test_any_declaration_is_understood_or_refused(
    listed: bytes, manifest: object, lock: object, tmp_path: Path
) -> None:
    home = tmp_path / "skill"
    home.mkdir(exist_ok=True)
    (home / "x.py").touch()
    (home / "requirements.txt").write_bytes(listed)
    (home / "package.json").write_text(json.dumps(manifest))
    (home / "package-lock.json").write_text(json.dumps(lock))

    for name in ("x.py", "x.mjs"):
        with contextlib.suppress(RequirementRefusedError):
            needs = declared_needs(script_at(home, name), str(home))
            assert needs is None or needs.names
