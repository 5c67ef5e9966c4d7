"""OpenedPaths: what a zygote may show, each path opened once and checked by its descriptor."""

import contextlib
import errno
import os
from functools import cache
from shutil import which

from skillpouch.environment import OWN_PROGRAMS, SYSTEM_PATH
from skillpouch.errors import CommandStartError, PathReplacedError
from skillpouch.execution.confinement import Plan, Right
from skillpouch.execution.layers import LayerFolders, layer_folders, mounted_inside
from skillpouch.execution.package_files import SHOWN_AT, links_to, originals
from skillpouch.execution.zygote import wire
from skillpouch.untrusted_files import follow_trusted_links, open_plain

# From the narrowest to the widest right: if two paths lead to the same folder, the wider counts.
_WIDER = ("list", "device", "read", "run", "write")


@cache
def _aliases(path: str) -> tuple[tuple[str, str], ...]:
    """Return the links by which a sandbox has `python` where the machine has only `python3`."""
    if which("python", path=path):
        return ()
    found = which("python3", path=path)
    return ((f"{OWN_PROGRAMS}/python", found),) if found else ()


Identity = tuple[int, int]  # device and inode


class OpenedPaths:
    """The paths of a plan, each opened once, so that the zygote uses exactly what was checked.

    `configuration` is the folder with copies of what packages brought to /etc and /var, if any.
    """

    def __init__(self, plan: Plan, expected: tuple[Identity, ...], configuration: str = "") -> None:
        self._fds: dict[str, tuple[Right, int]] = {}
        self.links = dict((*_aliases(SYSTEM_PATH), *plan.home_links))
        self._copies: dict[str, str] = {}  # folder → the path at which the sandbox has it
        self.named: tuple[tuple[str, Right], ...] = ()
        self.layers: LayerFolders | None = None
        self._changeable = [path for path, right, _ in plan.paths if right == "write"]
        required = [(path, right) for path, right, required in plan.paths if required]
        count = len(required) + len(plan.stack)
        if count > wire.MOST_DESCRIPTORS:
            reason = f"it may use {count} paths, the limit is {wire.MOST_DESCRIPTORS}"
            raise CommandStartError("the tool", reason, hint="grant the folder around them")
        try:
            self._copies |= dict(plan.own_tops)
            for (path, right), identity in zip(required, expected, strict=True):
                self._take(path, right, identity, is_followed=path in plan.followed)
            if configuration and plan.confined:
                self._take_configuration(plan, configuration)
            if plan.layered:
                self._take_layers(plan)
        except BaseException:
            self.close()
            raise

    def _take_configuration(self, plan: Plan, folder: str) -> None:
        if not plan.namespaces:
            self.named = originals(folder)
            return
        with contextlib.suppress(OSError):
            self._fds[folder] = ("run", open_plain(folder))
            self._copies[folder] = SHOWN_AT
            self.links |= links_to(folder, [path for path, _, _ in plan.paths])

    def _take_layers(self, plan: Plan) -> None:
        if reason := mounted_inside(plan.workspace):
            raise CommandStartError("the tool", reason)
        self.layers = layer_folders()
        self._fds[self.layers.path] = ("write", open_plain(self.layers.path))
        for number, path in enumerate(plan.stack):
            # Where the zygote mounts it: made here, so that two zygotes do not make it at once.
            os.makedirs(f"{self.layers.path}/s{number}", exist_ok=True)  # noqa: PTH103
            self._fds[path] = ("read", open_plain(path))

    def _take(self, path: str, right: Right, identity: Identity, *, is_followed: bool) -> None:
        try:
            if is_followed:
                self._open_followed(path, right, identity)
            else:
                self._open(path, right, identity)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise PathReplacedError(path, reason) from None

    def _open_followed(self, path: str, right: Right, identity: Identity) -> None:
        try:
            real, links = follow_trusted_links(path, self._changeable)
        except OSError as error:
            if error.errno == errno.ELOOP:
                return  # a tool may have made this link, so its target is not shown
            raise
        self._open(real, right, identity)
        self.links |= links

    def _open(self, path: str, right: Right, identity: Identity) -> None:
        fd = open_plain(path)
        found = os.fstat(fd)
        known = self._fds.get(path)
        if known is not None:
            os.close(known[1])
            right = max(right, known[0], key=_WIDER.index)
        self._fds[path] = (right, fd)
        if (found.st_dev, found.st_ino) != identity:
            raise PathReplacedError(path, "it was replaced while it was opened")

    def fields(self) -> dict[str, object]:
        """Return the fields for the zygote, in the order of the descriptors."""
        given = [(path, right) for path, (right, _) in self._fds.items()]
        layers = self.layers.path if self.layers is not None else ""
        return {"given": given, "links": self.links, "copies": self._copies, "layers": layers}

    @property
    def descriptors(self) -> tuple[int, ...]:
        return tuple(fd for _, fd in self._fds.values())

    def close(self) -> None:
        for fd in self.descriptors:
            os.close(fd)
        self._fds.clear()
