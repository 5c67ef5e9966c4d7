import pytest

from skillpouch.checks.strict import skill_md_problems
from skillpouch.problems import Problem

GOOD = "name: pdf-tools\ndescription: Reads PDF files\n"


def skill(frontmatter: str) -> bytes:
    return f"---\n{frontmatter}---\nBody\n".encode()


def found(raw: bytes, directory: str = "pdf-tools") -> list[tuple[str, int | None]]:
    path = f"{directory}/SKILL.md"
    return [(problem.code, problem.line) for problem in skill_md_problems(path, raw, directory)]


@pytest.mark.parametrize(
    "raw",
    [
        skill(GOOD),
        skill(GOOD).replace(b"\n", b"\r\n"),
        skill(GOOD + "license: MIT\ncompatibility: Python 3.11\nallowed-tools: Bash(git:*) Read\n"),
        skill(GOOD + "metadata:\n  author: Ada\n  version: 1.0\n"),
        skill(GOOD + "allowed-tools:\n  - Bash\n  - Read\n"),
        skill(GOOD + "compatibility:\n"),
        skill('name: "pdf-tools"\ndescription: >\n  Folded\n  text: fine\n# a comment\n'),
        b"---\n" + GOOD.encode() + b"---",
    ],
)
def test_what_the_reference_accepts_is_no_problem(raw: bytes) -> None:
    assert found(raw) == []


def test_a_problem_names_the_value_and_the_line() -> None:
    assert skill_md_problems("a/pdf/SKILL.md", skill(GOOD), "a/pdf") == [
        Problem(
            path="a/pdf/SKILL.md",
            code="strict-name",
            severity="warning",
            message="the name 'pdf-tools' must be that of its directory, 'pdf'",
            line=2,
        )
    ]


@pytest.mark.parametrize(
    ("raw", "code", "line"),
    [
        (b"", "strict-frontmatter", 1),
        (b"# Just text\n", "strict-frontmatter", 1),
        (b"\n" + skill(GOOD), "strict-frontmatter", 1),
        (b"---\n" + GOOD.encode(), "strict-frontmatter", 1),
        (b"--- # first\n" + GOOD.encode() + b"---\n", "strict-frontmatter", 1),
        (b"---\n" + GOOD.encode() + b"  ---\n", "strict-frontmatter", 4),
        (skill("name: pdf-tools\ndescription: one --- two\n"), "strict-frontmatter", 3),
        (b"\xef\xbb\xbf" + skill(GOOD), "strict-bom", 1),
        (skill(GOOD) + b"\xff", "strict-encoding", 6),
    ],
    ids=["empty", "none", "late", "open", "first", "indented", "inside", "bom", "encoding"],
)
def test_frontmatter_that_others_do_not_see_is_reported(raw: bytes, code: str, line: int) -> None:
    assert found(raw) == [(code, line)]


@pytest.mark.parametrize(
    ("frontmatter", "line"),
    [
        ("", 1),
        ("- a\n- b\n", 2),
        ("just text\n", 2),
        (GOOD + "metadata: {author: Ada}\n", 4),
        (GOOD + "allowed-tools: [Bash, Read]\n", 4),
        (GOOD + "license: &x MIT\n", 4),
        ("name: pdf-tools\ndescription: *bold* text\n", 3),
        (GOOD + "license: !spdx MIT\n", 4),
        (GOOD + "license: MIT\nlicense: MIT\n", 5),
        (GOOD + "metadata:\n  a: 1\n  a: 2\n", 6),
        (GOOD + "metadata:\n  a:\n    b: c\n  d:\n      e: f\n", 7),
        (GOOD + "license: a\tb\n", 4),
        (GOOD + "<<: a\n", 4),
        (GOOD + "? - a\n: b\n", 4),
        (GOOD + "license: a\x01b\n", 4),
        ("name: pdf-tools\ndescription: use: this\n", 3),
        (GOOD + "license: 'MIT\n", 5),
        (GOOD + "...\nmore: text\n", 5),
        (GOOD + "metadata:\n" + "".join("  " * n + "a:\n" for n in range(1, 70)), 68),
    ],
)
def test_yaml_that_the_reference_refuses_is_reported(frontmatter: str, line: int) -> None:
    [(code, where)] = found(skill(frontmatter))

    assert code == "strict-yaml"
    assert where == line


@pytest.mark.parametrize(
    ("frontmatter", "codes"),
    [
        (GOOD + "version: 1.0\nauthor: Ada\n", ["strict-unexpected-field"] * 2),
        ("license: MIT\n", ["strict-name", "strict-description"]),
        ("name:\ndescription: ' '\n", ["strict-name", "strict-description"]),
        ("name: pdf-tools\ndescription:\n  - a\n", ["strict-description"]),
        (f"name: pdf-tools\ndescription: {'d' * 1024}\n", []),
        (f"name: pdf-tools\ndescription: {'d' * 1025}\n", ["strict-description"]),
        (GOOD + f"compatibility: {'c' * 500}\n", []),
        (GOOD + f"compatibility: {'c' * 501}\n", ["strict-compatibility"]),
        (GOOD + "compatibility:\n  python: 3.11\n", ["strict-compatibility"]),
        (GOOD + "allowed-tools:\n  Bash: all\n", ["strict-allowed-tools"]),
    ],
)
def test_fields_outside_the_rules_are_reported(frontmatter: str, codes: list[str]) -> None:
    assert [code for code, _ in found(skill(frontmatter))] == codes


@pytest.mark.parametrize(
    "name", ["pdf", "pdf-tools-2", "42", "über", "a" * 64, "\uff50\uff44\uff46"]
)
def test_a_name_within_the_rules_is_accepted(name: str) -> None:
    assert found(skill(f"name: {name}\ndescription: d\n"), name) == []


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("Pdf", "must be in lower case"),
        ("-pdf", "must not start or end with '-'"),
        ("pdf-", "must not start or end with '-'"),
        ("pdf--tools", "nor contain '--'"),
        ("pdf_tools", "may hold only letters, digits and '-'"),
        ("pdf tools", "may hold only letters, digits and '-'"),
        ("a" * 65, "has 65 characters; 64 are allowed"),
        ("a" * 300, "has 300 characters"),
    ],
)
def test_a_name_outside_the_rules_is_reported_once(name: str, fault: str) -> None:
    raw = skill(f"name: {name}\ndescription: d\n")

    [problem] = skill_md_problems(f"{name}/SKILL.md", raw, name)

    assert problem.code == "strict-name"
    assert fault in problem.message


@pytest.mark.parametrize(
    ("file_name", "codes"),
    [("SKILL.md", []), ("skill.md", []), ("Skill.md", ["strict-file-name"])],
)
def test_the_file_name_has_two_spellings(file_name: str, codes: list[str]) -> None:
    problems = skill_md_problems(f"x/pdf-tools/{file_name}", skill(GOOD), "x/pdf-tools/")

    assert [problem.code for problem in problems] == codes


@pytest.mark.parametrize(
    "unit",
    ["[", "{", "- ", "? ", "a: ", "'", '"', "&a ", "*a ", "|\n", "- a\n", "--- ", "\u0323\u0301"],
)
def test_a_hostile_megabyte_gives_one_or_two_problems(unit: str) -> None:
    assert 1 <= len(found(skill(unit * (1_000_000 // len(unit))))) <= 2


def test_a_megabyte_of_accents_as_a_name_is_only_measured() -> None:
    name = "\u0323\u0301" * 250_000

    problems = skill_md_problems("SKILL.md", skill(f"name: a{name}\ndescription: d\n"), name)

    assert [problem.message for problem in problems] == [
        "'name' has 500,001 characters; 64 are allowed"
    ]
