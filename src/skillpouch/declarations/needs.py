"""Which executables a tool could run with: one of them must be on the machine."""

from pathlib import PurePosixPath

from skillpouch.signatures.languages import TYPESCRIPT_NODE, Language
from skillpouch.tools import Binary, InlineScript, Runs, Script

_INTERPRETERS: dict[Language, tuple[str, ...]] = {
    "python": (),  # the one that runs Skillpouch
    "shell": ("bash", "sh"),
    "javascript": ("node",),
    "typescript": (TYPESCRIPT_NODE,),
    "ruby": ("ruby",),
    "perl": ("perl",),
}


def needs_of(runs: Runs) -> tuple[str, ...]:
    """Return the executables of which one is needed; none for what Skillpouch does itself."""
    match runs:
        case Script(language=language, file=file):
            return ("zsh",) if file.endswith(".zsh") else _INTERPRETERS[language]
        case InlineScript(interpreter=interpreter):
            return (interpreter,)
        # A path inside the skill is no executable of the machine.
        case Binary(path=str(path)) if "/" not in path or PurePosixPath(path).is_absolute():
            return (path,)
        case _:
            return ()
