"""`sandbox="unshare"`: programs in namespaces that the program unshare of util-linux makes."""

import shutil
from dataclasses import replace

from skillpouch.errors import SandboxUnavailableError
from skillpouch.execution.command import Command
from skillpouch.execution.confinement import paths_of

# Builds a root folder of what may be reached, makes it the root, and runs the program without
# privileges. Words: the current folder, then `w` or `r` and a path each, `--`, the program.
_ENTER = """
set -e
folder=$1; shift; search=$PATH; PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t tmpfs tmpfs /mnt
mkdir -p /mnt/proc /mnt/dev /mnt/tmp /mnt/.old
mount -t tmpfs tmpfs /mnt/tmp
while [ "$1" != -- ]; do
  right=$1; path=$2; shift 2
  [ -e "$path" ] || continue
  if [ -d "$path" ]; then mkdir -p "/mnt$path"
  else mkdir -p "/mnt${path%/*}"; : > "/mnt$path"; fi
  mount --bind "$path" "/mnt$path"
  [ "$right" = w ] || mount -o remount,bind,ro "/mnt$path"
done
shift
mount -t proc proc /mnt/proc
cd /mnt
pivot_root . .old
umount -l /.old
mount -o remount,ro /
cd "$folder"
set +e
setpriv=$(command -v setpriv); PATH=$search
"$setpriv" --bounding-set=-all --inh-caps=-all --no-new-privs -- "$@"
exit $?
"""


class UnshareSandbox:
    """Files, network and processes of its own; what the kernel's other layers give is not there."""

    def __init__(self) -> None:
        needed = ("unshare", "setpriv", "pivot_root", "mount", "umount")
        search = "/usr/sbin:/usr/bin:/sbin:/bin"
        self._missing = [name for name in needed if shutil.which(name, path=search) is None]
        self._unshare = shutil.which("unshare", path=search) or ""

    def confine(self, command: Command) -> Command:
        confinement = command.confinement
        assert confinement is not None
        if self._missing:
            raise SandboxUnavailableError(("fs", "net"), f"{self._missing[0]} is not installed")
        if confinement.network == "hosts":
            raise SandboxUnavailableError(("net",), "unshare cannot open a network to some hosts")
        words = [str(command.cwd)]
        for path, right, _ in paths_of(confinement):
            words += ["w" if right in ("write", "device") else "r", path]
        spaces = ["--map-root-user", "--mount", "--pid", "--fork", "--kill-child", "--ipc"]
        protections = {"fs": "mountns", "tree": "pidns", "signals": "pidns", "temp": "private"}
        if confinement.network == "none":
            spaces.append("--net")
            protections["net"] = "netns"
        wrapper = (self._unshare, *spaces, "--", "/bin/sh", "-c", _ENTER, "enter", *words, "--")
        env = {"TMPDIR": "/tmp", **command.env}
        return replace(
            command, argv=(*wrapper, *command.argv), env=env, protections=protections
        )
