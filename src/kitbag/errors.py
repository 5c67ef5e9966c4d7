"""Every error Kitbag raises: facts kept as attributes, a message made of them, a stable code."""

from typing import ClassVar


class KitbagError(Exception):
    """Whatever Kitbag raises; `code` never changes, `hint` names the next step."""

    code: ClassVar[str] = "error"
    hint: str = ""


class SandboxUnavailableError(KitbagError):
    """A protection that was asked for is missing on this machine; nothing ran."""

    code = "sandbox_unavailable"
    hint = 'run `kitbag doctor`; sandbox="off" runs tools without protection'

    def __init__(self, missing: tuple[str, ...], reason: str = "") -> None:
        self.missing = missing
        self.reason = reason
        because = f": {reason}" if reason else ""
        super().__init__(f"this machine cannot protect {', '.join(missing)}{because}")


class CommandStartError(KitbagError):
    """The program could not be started; nothing ran."""

    code = "cannot_start"

    def __init__(self, program: str, reason: str) -> None:
        self.program = program
        self.reason = reason
        super().__init__(f"cannot start {program}: {reason}")
