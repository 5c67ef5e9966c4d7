"""The errors of grants."""

import shlex
from collections.abc import Sequence

from skillpouch.environment import is_set
from skillpouch.errors import CallDeniedError, CommandStartError, SkillpouchError
from skillpouch.needs import PLAIN_KINDS, Need
from skillpouch.text import find_hidden, visible
from skillpouch.trust.grant import pin_of


def has_hidden(text: str) -> bool:
    """Tell whether a text holds invisible characters, or characters that control a terminal."""
    return not text.isprintable() or any(True for _ in find_hidden(text))


_OPTIONS = {
    "secret": "--secret",
    "setting": "--set",
    "host": "--host",
    "read": "--read",
    "write": "--write",
    "packages": "--package",
    "build": "--build",
    "program": "--program",
    "memory": "--memory",
    "devices": "--device",
    "time": "--time",
    "own-folder": "--own-folder",
}
_NOUNS = {"read": "reading", "write": "writing", "packages": "package", "build": "building"}
_NOUNS |= {"devices": "device", "own-folder": "own folder"}
_PLAIN = {
    "local-sockets": "local sockets",
    "commands": "all of it for commands that an agent writes",
    "unconfined": "unconfined running",
}
# Said before a command for a skill is approved, or commands are granted what the skill has: the
# workspace may hold files that nobody has looked at.
WHOSE_FILES = "a file of the workspace before the skill's file of the same path"


class UngrantedError(CallDeniedError):
    """A call needs something that its skill was not granted; the hint is the command for it."""

    code = "ungranted"

    def __init__(self, skill: str, needs: Sequence[Need], *, roots: Sequence[str] = ()) -> None:
        self.skill = skill
        self.needs = tuple(needs)
        self.command = trust_command(skill, self.needs, roots=roots)
        wanted = ", ".join(describe(need) for need in self.needs)
        super().__init__(f"{skill} was not granted {wanted}", hint=f"run `{self.command}`")


class ConsentNeededError(CallDeniedError):
    """An approval is needed, and there is no terminal on which to ask for it."""

    code = "consent_needed"

    def __init__(
        self,
        skill: str,
        needs: Sequence[Need],
        *,
        roots: Sequence[str] = (),
        renew: bool = False,
    ) -> None:
        self.skill = skill
        self.needs = tuple(needs)
        asked = () if renew else self.needs
        self.command = trust_command(skill, asked, roots=roots, yes=True, renew=renew)
        super().__init__(
            "nothing was granted: there is no terminal to ask on",
            hint=f"run `{self.command}` to grant it",
        )


class GrantRefusedError(SkillpouchError):
    """A need that is never granted, or that is not valid."""

    code = "grant_refused"

    def __init__(self, need: Need, reason: str, *, hint: str = "") -> None:
        self.need = need
        self.reason = reason
        super().__init__(f"cannot grant {describe(need)}: {reason}", hint=hint)


class GrantStoreError(CallDeniedError):
    """The folder of grants cannot be trusted or used: all grants in it are ignored."""

    code = "grant_store"

    def __init__(self, path: str, reason: str, *, hint: str = "") -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"grants in {path} are not used: {reason}", hint=hint)


class SkillChangedError(CallDeniedError):
    """A skill changed while somebody reviewed it, so nothing is granted to it."""

    code = "skill_changed"

    def __init__(self, skill: str) -> None:
        self.skill = skill
        super().__init__(
            f"{skill} changed while it was reviewed: nothing was granted",
            hint=f"review it again: `skillpouch trust {shlex.quote(skill)}`",
        )


class SecretUnsetError(CommandStartError):
    """A granted secret has no value, or an empty one."""

    code = "secret_unset"

    def __init__(self, skill: str, names: Sequence[str]) -> None:
        self.skill = skill
        self.names = tuple(names)
        many = "are" if len(names) > 1 else "is"
        super().__init__(
            skill,
            f"{', '.join(names)} {many} granted but not set",
            hint=f"set it where Skillpouch runs: export {names[0]}=…",
        )


def trust_command(
    skill: str,
    needs: Sequence[Need],
    *,
    roots: Sequence[str] = (),
    yes: bool = False,
    renew: bool = False,
) -> str:
    """Return the command that grants some needs, ready to be pasted into a shell."""
    words = ["skillpouch", "trust", *([skill] if skill else []), *(["--renew"] if renew else [])]
    for need in needs:
        option = _OPTIONS.get(need.kind)
        words += [f"--{need.kind}"] if option is None else [option, visible(_given(need))]
    for root in roots:
        words += ["--root", root]
    return shlex.join([*words, "--yes"] if yes else words)


def _given(need: Need) -> str:
    """Return the value of an option; a setting that has none here gets a place for one."""
    is_open = need.kind == "setting" and "=" not in need.value
    return f"{need.value}=VALUE" if is_open and not is_set(need.value) else need.value


def describe(need: Need) -> str:
    """Return a need in words: `secret API_KEY`, `unconfined running`."""
    if need.kind in PLAIN_KINDS:
        return _PLAIN.get(need.kind, need.kind)
    return f"{_NOUNS.get(need.kind, need.kind)} {visible(need.value)}"


class DownloadError(CommandStartError):
    """A program could not be downloaded, or has the wrong content."""

    code = "download"


class HashDiffersError(DownloadError):
    """A download has another hash than expected; it was deleted."""

    code = "hash_differs"

    def __init__(self, url: str, expected: str, found: str, *, hint: str = "") -> None:
        self.expected = expected
        self.found = found
        super().__init__(
            url,
            f"its sha256 is {found}, not {expected}",
            hint=hint or "the file was changed, or the declaration is out of date: ask its author",
        )


class PinDiffersError(HashDiffersError):
    """A program has another hash than the one that was approved."""

    code = "pin_differs"

    def __init__(self, skill: str, url: str, pinned: str, found: str) -> None:
        self.skill = skill
        self.command = trust_command(skill, [Need(kind="program", value=pin_of(url, found))])
        hint = f"if the new one is right, run `{self.command}`"
        super().__init__(url, pinned, found, hint=hint)


class PinNeededError(CallDeniedError):
    """A program has no declared hash, and there was nobody to approve the downloaded one."""

    code = "pin_needed"

    def __init__(self, host: str, size_bytes: int, sha256: str) -> None:
        self.host = host
        self.size_bytes = size_bytes
        self.sha256 = sha256
        super().__init__(
            f"a program of {size_bytes:,} bytes from {host} was not run: nobody approved it",
            hint=f"if it is the right one, add `sha256: {sha256}` to its backend",
        )
