"""Makes what a layered call leaves behind, without running one."""

import os
import stat
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from skillpouch.workspace.change_store import ChangeStore, KeptCall


def keep(
    workspace: Path,
    files: Mapping[str, str | None],
    *,
    call_id: str,
    state: str = "applied",
    tool: str = "demo.write",
    session: str = "",
) -> KeptCall:
    """Keep a call that wrote these files, or deleted those that are None."""
    upper = Path(tempfile.mkdtemp(dir=workspace.parent))
    upper.chmod(stat.S_IMODE(workspace.stat().st_mode))
    started = time.time_ns()
    for path, content in files.items():
        target = upper / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            os.mknod(target, stat.S_IFCHR, os.makedev(0, 0))  # a whiteout, see overlayfs.rst
        else:
            target.write_text(content)
    kept = ChangeStore().begin(call_id, workspace, tool=tool, session=session, started_ns=started)
    kept.take(upper)
    if state == "applied":
        kept.apply()
    elif state == "refused":
        kept.refuse()
    return kept
