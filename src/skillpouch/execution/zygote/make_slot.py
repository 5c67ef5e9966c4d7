"""A forked child of the zygote becomes a slot: it takes its own view, then the seal, then calls."""

from __future__ import annotations

import os

from skillpouch.execution.zygote import kernel, own_network, own_view, wire
from skillpouch.execution.zygote.leftovers import OwnFolders, SharedFolder
from skillpouch.execution.zygote.seal import Seal
from skillpouch.execution.zygote.slot import Slot
from skillpouch.execution.zygote.spawn import ForkThenSeal, SpawnSealed
from skillpouch.execution.zygote.tree import AdoptedTree, NamespaceTree
from skillpouch.execution.zygote.warm_slot import WarmSlot

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket

    from skillpouch.execution.zygote.fields import Fields
    from skillpouch.execution.zygote.namespaces import NewRoot

_FIRST_PROCESS = 1


def make_slot(sock: _socket.socket, config: Fields, limits: Fields, root: NewRoot) -> Slot:
    if config["namespaces"]:
        return _in_namespace(sock, config, limits, root)
    return _as_adopter(sock, config, limits)


def _in_namespace(sock: _socket.socket, config: Fields, limits: Fields, root: NewRoot) -> Slot:
    kernel.unshare(kernel.NEWNS)
    _enter_network(config, limits)
    leftovers = _mount_view(config, limits, root)
    seal = Seal(config, limits, (_FIRST_PROCESS,), list(own_view.TEMPORARY))
    _close_opened(config)
    seal.apply()
    kernel.hide_from_peers()
    return Slot(sock, SpawnSealed(), NamespaceTree(), leftovers, limits["cpu_seconds"])


def make_warm_slot(
    sock: _socket.socket, nest: _socket.socket, config: Fields, limits: Fields, root: NewRoot
) -> WarmSlot:
    kernel.unshare(kernel.NEWNS)
    _enter_network(config, limits)
    names = ("mnt", "net") if config["proxy_port"] else ("mnt",)
    own = tuple(map(_open_namespace, names))  # /proc may be covered next
    leftovers = _mount_view(config, limits, root)
    try:
        wire.send(nest, wire.READY, own)
    except OSError:
        # The nursery is gone before it began: the call is lost, and nothing of it is alive.
        wire.send(sock, wire.LOST + b" 1")
        os._exit(0)
    for fd in own:
        os.close(fd)
    # Outside Landlock: it lets a process signal only its own domain, and the calls that this one
    # ends live in the nursery's. It runs nothing itself.
    Seal({**config, "landlock": 0}, limits, (_FIRST_PROCESS,), []).apply()
    kernel.hide_from_peers()
    return WarmSlot(sock, nest, leftovers)


def _open_namespace(name: str) -> int:
    return os.open("/proc/self/ns/" + name, os.O_RDONLY | os.O_CLOEXEC)


def _enter_network(config: Fields, limits: Fields) -> None:
    """Take a network of this slot's own where a call may reach hosts; all others have none."""
    if config["proxy_port"]:
        own_network.enter(limits["porch"], config["proxy_port"])


def _mount_view(config: Fields, limits: Fields, root: NewRoot) -> OwnFolders:
    """Mount the process table and the temporary folders that only this slot sees."""
    if config["own_proc"]:
        own_view.mount_processes(limits["processes"] if config["pid_limit"] else None)
    else:
        own_view.hide_processes()
    own_view.mount_temporary(root.paths, root.links, config["temporary_bytes"])
    return OwnFolders(root.paths)


def _as_adopter(sock: _socket.socket, config: Fields, limits: Fields) -> Slot:
    kernel.adopt_orphans()
    leftovers = SharedFolder(limits["temporary"])
    guarded = (os.getpid(), os.getppid(), *config["guarded"])
    starter = ForkThenSeal(Seal(config, limits, guarded, [limits["temporary"]]))
    _close_opened(config)
    if config["confined"]:
        kernel.hide_from_peers()
    return Slot(sock, starter, AdoptedTree(), leftovers, None)


def _close_opened(config: Fields) -> None:
    """Close what the rules were made of: no tool may ever get at a folder by its descriptor."""
    for fd, _ in config["opened"]:
        os.close(fd)
