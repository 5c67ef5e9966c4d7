"""Packages of npm: installed from a registry on loopback, found by scripts that lie elsewhere."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from skillpouch.declarations.packages.declared_files import InstallError
from skillpouch.declarations.packages.needs import NodeNeeds, declared_needs
from skillpouch.provision.interpreters import find_program
from skillpouch.provision.packages.lookup import recipe_for
from skillpouch.provision.packages.node_recipe import find_npm
from skillpouch.provision.packages.ready import Environment
from tests.conftest import WriteSkill
from tests.provision.packages.conftest import RUNNERS, Run, installed, script_at
from tests.provision.packages.registry import Registry

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(120),
    pytest.mark.skipif(not find_npm(), reason="npm is not installed: `make interpreters` names it"),
]

COMMON = {"index.js": "exports.version = 'common ' + require('bulb').version;\n"}
MODULE = {"index.mjs": "export const version = 'module';\n", "deep.mjs": "export default 'deep';\n"}


def stock(registry: Registry) -> dict[str, Any]:
    bulb = registry.add_npm("bulb", "1.5.0", {"index.js": "exports.version = '1.5';\n"})
    lamp = registry.add_npm("lamp", "2.0.0", COMMON, dependencies={"bulb": "^1"})
    exports = {".": "./index.mjs", "./deep": "./deep.mjs"}
    neon = registry.add_npm("@glow/neon", "1.0.0", MODULE, type="module", exports=exports)
    return {"bulb": bulb, "lamp": {**lamp, "dependencies": {"bulb": "^1"}}, "@glow/neon": neon}


def package(**dependencies: str) -> str:
    return json.dumps({"name": "x", "dependencies": dependencies or {"lamp": "^2"}})


async def environment_of(home: Path, script: str) -> Environment:
    found = await installed(script_at(home, script), home)
    assert found is not None
    return found


BOTH = {"lamp": "^2", "@glow/neon": "*"}
SCRIPTS = {
    "import.mjs": "import { version } from 'lamp';\nimport * as neon from '@glow/neon';\n"
    "import deep from '@glow/neon/deep';\nimport fs from 'fs';\n"
    "console.log(version, neon.version, deep, typeof fs.readFileSync);\n",
    "require.cjs": "const neon = import('@glow/neon');\nconst lamp = require('lamp');\n"
    "Promise.all([neon, import('@glow/neon/deep')]).then(([a, b]) =>\n"
    "  console.log(lamp.version, a.version, b.default, 'function'));\n",
    "made.mjs": "import { createRequire } from 'node:module';\n"
    "const lamp = createRequire(import.meta.url)('lamp');\n"
    "const neon = await import('@glow/neon');\nconst deep = await import('@glow/neon/deep');\n"
    "console.log(lamp.version, neon.version, deep.default, 'function');\n",
    "sibling.mjs": "import './import.mjs';\n",
    "child.mjs": "import { spawnSync } from 'node:child_process';\n"
    "import { fileURLToPath } from 'node:url';\n"
    "const path = fileURLToPath(new URL('./import.mjs', import.meta.url));\n"
    "process.stdout.write(spawnSync(process.execPath, [path]).stdout);\n",
    "worker.mjs": "import { Worker } from 'node:worker_threads';\n"
    "new Worker(new URL('./import.mjs', import.meta.url));\n",
}


@pytest.mark.parametrize("name", SCRIPTS)
async def test_a_script_of_a_read_only_skill_finds_its_packages(
    name: str, registry: Registry, write_skill: WriteSkill, run: Run
) -> None:
    stock(registry)
    files = {f"scripts/{each}": text for each, text in SCRIPTS.items()}
    home = write_skill(files={**files, "package.json": package(**BOTH)})
    script = script_at(home, f"scripts/{name}")

    ended = await run(await environment_of(home, f"scripts/{name}"), script, home)

    assert ended.stdout.text == "common 1.5 module deep function\n", ended.stderr.text
    assert not (home / "node_modules").exists()


async def test_a_package_that_is_not_there_is_told_by_node_itself(
    registry: Registry, write_skill: WriteSkill, run: Run
) -> None:
    stock(registry)
    text = "import 'lamp';\nawait import('absent').catch((error) => console.log(error.message));\n"
    home = write_skill(files={"scripts/x.mjs": text, "package.json": package()})

    found = await environment_of(home, "scripts/x.mjs")
    ended = await run(found, script_at(home, "scripts/x.mjs"), home)

    assert ended.stdout.text == (
        f"Cannot find package 'absent' imported from {home}/scripts/x.mjs\n"
    )


async def test_a_skill_that_is_a_package_still_finds_itself(
    registry: Registry, write_skill: WriteSkill, run: Run
) -> None:
    stock(registry)
    manifest = {"name": "own", "exports": "./lib.mjs", "dependencies": {"lamp": "^2"}}
    home = write_skill(
        files={
            "scripts/x.mjs": "import { version } from 'own';\nconsole.log(version);\n",
            "lib.mjs": "export { version } from 'lamp';\n",
            "package.json": json.dumps(manifest),
        }
    )

    found = await environment_of(home, "scripts/x.mjs")
    ended = await run(found, script_at(home, "scripts/x.mjs"), home)

    assert ended.stdout.text == "common 1.5\n", ended.stderr.text


async def test_a_lock_file_decides_the_version_but_not_the_place(
    registry: Registry, write_skill: WriteSkill, run: Run
) -> None:
    entries = stock(registry)
    registry.add_npm("bulb", "1.9.0", {"index.js": "exports.version = '1.9';\n"})
    registry.add_npm("bulb", "1.5.0", {"index.js": "exports.version = '1.5';\n"})
    evil = Registry()
    packages = {
        f"node_modules/{name}": {
            **entry,
            "resolved": entry["resolved"].replace(registry.address, evil.address),
        }
        for name, entry in entries.items()
        if name != "@glow/neon"
    }
    lock = {"name": "x", "lockfileVersion": 3, "packages": {"": {}, **packages}}
    home = write_skill(
        files={
            "scripts/x.cjs": "console.log(require('lamp').version);\n",
            "package.json": package(),
            "package-lock.json": json.dumps(lock),
        }
    )

    found = await environment_of(home, "scripts/x.cjs")
    ended = await run(found, script_at(home, "scripts/x.cjs"), home)
    evil.close()

    assert ended.stdout.text == "common 1.5\n"
    assert evil.asked == []


async def test_a_package_that_is_not_the_locked_one_is_refused(
    registry: Registry, write_skill: WriteSkill
) -> None:
    entry = registry.add_npm("lamp", "2.0.0", {"index.js": "// the one\n"})
    registry.add_npm("lamp", "2.0.0", {"index.js": "// another\n"})
    lock = {"lockfileVersion": 3, "packages": {"": {}, "node_modules/lamp": entry}}
    home = write_skill(
        files={
            "scripts/x.mjs": "",
            "package.json": package(),
            "package-lock.json": json.dumps(lock),
        }
    )

    with pytest.raises(InstallError, match="not the one that was pinned"):
        await environment_of(home, "scripts/x.mjs")


@pytest.mark.promise("call-1")
@pytest.mark.parametrize("claims", [("lamp",), ("lamp", "moth")])
async def test_a_lock_file_brings_no_package_that_none_of_the_others_needs(
    claims: tuple[str, ...], registry: Registry, write_skill: WriteSkill
) -> None:
    entries = stock(registry)
    # `lamp` does not need it; moth and gnat need each other.
    entries["gnat"] = registry.add_npm("gnat", "1.0.0", {"index.js": ""})
    entries["moth"] = registry.add_npm(
        "moth", "1.0.0", {"index.js": ""}, dependencies={"gnat": "*", "moth": "*"}
    )
    packages = {f"node_modules/{name}": dict(entry) for name, entry in entries.items()}
    del packages["node_modules/@glow/neon"]
    for name in claims:
        entry = packages[f"node_modules/{name}"]
        entry["dependencies"] = {**entry.get("dependencies", {}), "moth": "*", "gnat": "*"}
    home = write_skill(
        files={
            "scripts/x.cjs": "",
            "package.json": package(),
            "package-lock.json": json.dumps({"lockfileVersion": 3, "packages": packages}),
        }
    )

    with pytest.raises(InstallError, match=r"moth is in the lock file"):
        await environment_of(home, "scripts/x.cjs")


@pytest.mark.promise("dep-3")
async def test_no_install_script_of_a_package_runs(
    registry: Registry, write_skill: WriteSkill
) -> None:
    hooks = ("preinstall", "install", "postinstall", "prepare")
    scripts = {hook: f"touch ../../{hook}-ran" for hook in hooks}
    registry.add_npm("lamp", "2.0.0", {"index.js": ""}, scripts=scripts, hasInstallScript=True)
    home = write_skill(files={"scripts/x.mjs": "", "package.json": package()})

    found = await environment_of(home, "scripts/x.mjs")

    assert not list(found.folder.rglob("*-ran"))


@pytest.mark.promise("dep-3")
async def test_the_scripts_of_the_skill_itself_do_not_run_either(
    registry: Registry, write_skill: WriteSkill
) -> None:
    stock(registry)
    manifest = {"dependencies": {"lamp": "^2"}, "scripts": {"postinstall": "touch ran"}}
    home = write_skill(
        files={
            "scripts/x.mjs": "",
            "package.json": json.dumps(manifest),
            ".npmrc": "registry=http://127.0.0.1:9/\nignore-scripts=false\n",
        }
    )

    found = await environment_of(home, "scripts/x.mjs")

    assert not list(found.folder.rglob("ran"))
    assert found.node_modules is not None
    assert (found.node_modules / "lamp" / "index.js").exists()


@pytest.mark.promise("dep-1")
@pytest.mark.parametrize("kind", ["git+{}/bulb.git", "{}/npm/-/bulb-1.5.0.tgz", "file:../bulb"])
async def test_a_package_of_a_package_comes_from_the_registry_too(
    kind: str, registry: Registry, write_skill: WriteSkill
) -> None:
    stock(registry)
    address = kind.format(registry.address)
    registry.add_npm("lamp", "2.0.0", {"index.js": ""}, dependencies={"bulb": address})
    home = write_skill(files={"scripts/x.mjs": "", "package.json": package()})

    with pytest.raises(InstallError):
        await environment_of(home, "scripts/x.mjs")

    assert not [path for path in registry.asked if "bulb" in path]


@pytest.mark.promise("dep-1")
@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ("^1", ""),
        ("npm:other@2", ""),
        ("http://127.0.0.1/x.tgz", "bulb is asked for by address"),
        ("user/repository", "bulb is asked for by address"),
    ],
)
async def test_what_an_older_npm_installed_is_looked_at_afterwards(
    asked: str, why: str, write_skill: WriteSkill, tmp_path: Path
) -> None:
    home = write_skill(files={"scripts/x.mjs": "", "package.json": package()})
    needs = declared_needs(script_at(home, "scripts/x.mjs"), str(home))
    assert isinstance(needs, NodeNeeds)
    recipe = await recipe_for(needs, "demo", "on", None)
    said = {"packages": {"node_modules/lamp": {"dependencies": {"bulb": asked}}}}
    (tmp_path / "node/node_modules").mkdir(parents=True)

    silent = recipe.objection(tmp_path)
    (tmp_path / "node/node_modules/.package-lock.json").write_text(json.dumps(said))
    objection = recipe.objection(tmp_path)

    assert silent == "npm does not say what it installed"
    assert objection == (f"{why}: only packages by name are installed" if why else "")


async def test_a_version_that_does_not_exist_is_told(
    registry: Registry, write_skill: WriteSkill
) -> None:
    stock(registry)
    home = write_skill(files={"scripts/x.mjs": "", "package.json": package(lamp="^9")})

    with pytest.raises(InstallError, match="no such package or version") as caught:
        await environment_of(home, "scripts/x.mjs")

    assert caught.value.hint == "see what there is: `npm view lamp`"


async def test_the_settings_in_the_home_of_the_user_hold(
    registry: Registry, write_skill: WriteSkill, monkeypatch: pytest.MonkeyPatch
) -> None:
    stock(registry)
    monkeypatch.delenv("NPM_CONFIG_REGISTRY")
    (Path.home() / ".npmrc").write_text(f"registry={registry.address}/npm/\n")
    home = write_skill(files={"scripts/x.mjs": "", "package.json": package()})

    found = await environment_of(home, "scripts/x.mjs")

    assert found.requirements == ("lamp@^2",)


async def test_a_handler_is_called_with_its_packages(
    registry: Registry, write_skill: WriteSkill, tmp_path: Path, run: Run
) -> None:
    stock(registry)
    text = "import { version } from 'lamp';\nexport default () => version;\n"
    home = write_skill(files={"scripts/x.mjs": text, "package.json": package()})
    found = await environment_of(home, "scripts/x.mjs")
    caller = home / "scripts/call.mjs"
    answer = tmp_path / "workspace/answer"
    caller.write_text(
        "import { openSync } from 'node:fs';\n"
        f"process.env.SKILLPOUCH_ANSWER = String(openSync('{answer}', 'w'));\n"
        "process.env.SKILLPOUCH_ARGUMENTS = 'stdin';\n"
        f"process.argv[2] = '{home}/scripts/x.mjs'; await import('{RUNNERS}/call_node.mjs');\n"
    )

    ended = await run(found, script_at(home, "scripts/call.mjs"), home)

    assert answer.read_text() == '"common 1.5"', ended.stderr.text


async def test_without_npm_the_next_step_is_named(
    write_skill: WriteSkill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    shutil.copy(find_program("node"), programs / "node")
    monkeypatch.setenv("PATH", str(programs))
    find_program.cache_clear()
    monkeypatch.setattr("skillpouch.provision.packages.node_recipe._DEBIAN", tmp_path / "absent")
    home = write_skill(files={"scripts/x.mjs": "", "package.json": package()})

    with pytest.raises(InstallError, match="npm is not installed") as caught:
        await environment_of(home, "scripts/x.mjs")

    find_program.cache_clear()
    assert "apt install npm" in caught.value.hint
