"""How npm packages are installed: from the registry, without running their code."""

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from typing import Any

from skillpouch.declarations.packages.needs import NodeNeeds
from skillpouch.declarations.packages.package_json import is_range
from skillpouch.environment import search_path
from skillpouch.provision.interpreters import find_program, homes_of
from skillpouch.provision.packages.configuration import npm_settings
from skillpouch.provision.packages.recipe import Step, machine, recipe_digest

MODULES = "node"  # the subfolder of an environment that contains node_modules
_SECTIONS = ("dependencies", "optionalDependencies", "peerDependencies")
_MOST_NAMED = 8
_DEBIAN = Path("/usr/share/nodejs")
_QUIET = ("--no-audit", "--no-fund", "--no-update-notifier", "--no-progress", "--loglevel=error")
_SAFE = ("--ignore-scripts", "--git=/bin/false", "--omit=dev", "--global=false", "--no-workspaces")
# Packages come from the registry only. Set by variables, because an older npm ignores unknown ones;
# then `objection` finds such packages after the installation.
_REGISTRY_ONLY = tuple(
    (f"npm_config_allow_{kind}", "none") for kind in ("git", "remote", "file", "directory")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRecipe:
    """Packages for one Node. `npm` is the path of npm's JavaScript file."""

    needs: NodeNeeds
    node: str
    npm: str

    @property
    def names(self) -> tuple[str, ...]:
        return self.needs.names

    @property
    def digest(self) -> str:
        manifest = self.needs.manifest
        status = Path(self.node).stat()
        node = [self.node, status.st_size, status.st_mtime_ns]
        return recipe_digest("node", manifest.text, manifest.lock, node, machine())

    def record(self) -> dict[str, Any]:
        return {"kind": "node", "base": self.node}

    def try_yourself(self) -> str:
        first = self.names[0]
        at = first.find("@", 1)  # not the `@` of a scope
        return shlex.join(["npm", "view", first[:at] if at > 0 else first])

    def objection(self, folder: Path) -> str:
        # A dependency of a dependency may be given by address, and npm would install it.
        inside = folder / MODULES
        try:
            asked = list(_specifiers(inside / "node_modules" / ".package-lock.json"))
            # npm trusts the lock file of a skill about what each package depends on.
            unasked = _unasked(inside) if self.needs.manifest.lock is not None else []
        except (OSError, ValueError, KeyError, AttributeError, RecursionError):
            return "npm does not say what it installed"
        strange = [name for name, what in asked if not is_range(what)]
        if strange:
            named = ", ".join(strange)
            return f"{named} is asked for by address: only packages by name are installed"
        named = ", ".join(unasked[:_MOST_NAMED])
        reason = f"{named} is in the lock file, but no requested package needs it"
        return reason if unasked else ""

    def steps(self, folder: Path, downloads: Path) -> Sequence[Step]:
        inside = folder / MODULES
        inside.mkdir()
        manifest = self.needs.manifest
        (inside / "package.json").write_text(manifest.text)
        if manifest.lock is not None:
            (inside / "package-lock.json").write_text(manifest.lock)
        verb = "ci" if manifest.lock is not None else "install"
        step = Step(
            argv=(
                self.node,
                self.npm,
                verb,
                *_QUIET,
                *_SAFE,
                "--package-lock",
                "--prefix",
                str(inside),
            ),
            settings=npm_settings(Path(self.node).parent.parent),
            variables=(("npm_config_cache", str(downloads / "npm")), *_REGISTRY_ONLY),
            interpreters=(*homes_of(self.node), Path(self.npm).parent.parent),
            network="host",
        )
        return (step,)


def _specifiers(lock: Path) -> Iterator[tuple[str, str]]:
    """Yield the name and the range of every dependency of an installed package."""
    packages = json.loads(lock.read_bytes())["packages"]
    for entry in packages.values():
        for section in ("dependencies", "optionalDependencies"):
            yield from entry.get(section, {}).items()


def _unasked(inside: Path) -> list[str]:
    """Return installed packages that neither the manifest nor an installed package depends on."""
    packages = json.loads((inside / "node_modules" / ".package-lock.json").read_bytes())["packages"]
    needed: dict[str, set[str]] = {}
    for place in packages:
        name = place.rpartition("node_modules/")[2]
        needed.setdefault(name, set()).update(_wanted(inside / place / "package.json"))
    todo, reached = list(_wanted(inside / "package.json")), set[str]()
    while todo:
        name = todo.pop()
        if name not in reached:
            reached.add(name)
            todo += needed.get(name, ())
    return sorted(needed.keys() - reached)


def _wanted(manifest: Path) -> set[str]:
    """Return the dependencies in the package.json of a package itself, not those in a lock file."""
    value = json.loads(manifest.read_bytes())
    return {name for section in _SECTIONS for name in value.get(section) or {}}


def find_npm() -> str:
    """Return the JavaScript file of npm, "" when there is none. Shims are skipped."""
    node = Path(find_program("node"))
    found = which("npm", path=search_path())
    places = [Path(found).resolve()] if found else []
    places += [
        node.parent.parent / "lib/node_modules/npm/bin/npm-cli.js",
        _DEBIAN / "npm/bin/npm-cli.js",
    ]
    return next((str(place) for place in places if place.suffix == ".js" and place.is_file()), "")
