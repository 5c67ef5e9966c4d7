"""Packages as others publish them: modules, and beside them what an installer writes about them."""

import importlib
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

import skillpouch.backends as table
from skillpouch.execution import sandboxes

EXAMPLE = Path(__file__).parents[2] / "examples/extending"
Install = Callable[..., Path]


def _can_unshare() -> bool:
    words = ["unshare", "--map-root-user", "--mount", "--pid", "--net", "--fork", "true"]
    try:
        return subprocess.run(words, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


needs_unshare = pytest.mark.skipif(not _can_unshare(), reason="unshare cannot make namespaces here")


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install a package: entry points by group, and modules by path, into a folder on the path."""
    # What one test installs, no other finds made already.
    monkeypatch.setattr(table, "_made", {})
    monkeypatch.setattr(sandboxes, "_loaded", {})

    def put(
        name: str,
        entry_points: Mapping[str, Mapping[str, str]],
        files: Mapping[str, str] | None = None,
        version: str = "1.0",
    ) -> Path:
        site = tmp_path / "site" / name
        about = site / f"{name.replace('-', '_')}-{version}.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
        lines = []
        for group, entries in entry_points.items():
            lines += [f"[{group}]", *(f"{key} = {value}" for key, value in entries.items())]
        (about / "entry_points.txt").write_text("\n".join(lines) + "\n")
        for path, text in (files or {}).items():
            (site / path).write_text(text)
        monkeypatch.syspath_prepend(site)
        importlib.invalidate_caches()
        return site

    return put


@pytest.fixture
def example(install: Install, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package of examples/extending, installed."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    site = install(project["name"], project["entry-points"], version=project["version"])
    shutil.copytree(EXAMPLE / "skillpouch_example", site / "skillpouch_example")
    for module in [name for name in sys.modules if name.partition(".")[0] == "skillpouch_example"]:
        monkeypatch.delitem(sys.modules, module)
    return site
