"""One requirement on a Python package, as PEP 508 writes it: read strictly, written plainly."""

import re
from dataclasses import dataclass

_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_SPECIFIER = r"(?:~=|===?|!=|<=?|>=?)\s*[A-Za-z0-9][A-Za-z0-9.*+!_-]*"
_SPECIFIERS = rf"{_SPECIFIER}(?:\s*,\s*{_SPECIFIER})*\s*,?"
_REQUIREMENT = re.compile(
    rf"(?P<name>{_NAME})\s*(?:\[(?P<extras>[^\]]*)\])?\s*"
    rf"(?:(?P<bare>{_SPECIFIERS})|\(\s*(?P<wrapped>{_SPECIFIERS})\s*\))?\s*(?:;(?P<marker>.*))?\Z"
)
# Only what a marker can be made of. Installers split a line at " -" and fill in "${NAME}", even
# between quotes: neither may be in one.
_MARKER_TOKEN = re.compile(
    r"""\s*(?:(?P<word>[a-z_]+(?:\.[a-z_]+)?)|(?P<operator>~=|===?|!=|<=?|>=?|[()])
    |'(?P<single>[\w .+*,!:~/()-]*)'|"(?P<double>[\w .+*,!:~/()-]*)")\s*""",
    re.VERBOSE,
)
_MARKER_WORDS = frozenset(
    (
        *("and", "or", "in", "not", "extra", "os_name", "sys_platform"),
        *("python_version", "python_full_version", "implementation_name", "implementation_version"),
        *("platform_machine", "platform_python_implementation", "platform_release"),
        *("platform_system", "platform_version"),
    )
)
_ARCHIVE = re.compile(r"\.(?:whl|zip|tar\.\w+|tgz)\Z", re.IGNORECASE)
_MOST_CHARACTERS = 1_000


class NotARequirementError(ValueError):
    """A text that is no requirement Skillpouch installs; the message says why."""


@dataclass(frozen=True, slots=True, order=True)
class Requirement:
    """A package by name. `hashes` are what its files may be, when they are pinned."""

    name: str
    extras: tuple[str, ...] = ()
    specifiers: tuple[str, ...] = ()
    marker: str = ""
    hashes: tuple[str, ...] = ()

    def __str__(self) -> str:
        extras = f"[{','.join(self.extras)}]" if self.extras else ""
        marker = f"; {self.marker}" if self.marker else ""
        return f"{self.name}{extras}{','.join(self.specifiers)}{marker}"

    @property
    def line(self) -> str:
        """The requirement as a line for an installer."""
        return " ".join([str(self), *(f"--hash={value}" for value in self.hashes)])


def parse_requirement(text: str, hashes: tuple[str, ...] = ()) -> Requirement:
    """Return the requirement; raise NotARequirementError for everything but a named package."""
    text = text.strip()
    if len(text) > _MOST_CHARACTERS:
        raise NotARequirementError(f"{len(text):,} characters are no requirement")
    found = _REQUIREMENT.match(text)
    if found is None or _ARCHIVE.search(text.partition(";")[0].strip()):
        raise NotARequirementError(_why_not(text))
    specifiers = found["bare"] or found["wrapped"] or ""
    return Requirement(
        name=_normal(found["name"]),
        extras=_extras(found["extras"] or "", text),
        specifiers=tuple(sorted({"".join(part.split()) for part in specifiers.split(",") if part})),
        marker=_marker(found["marker"] or "", text),
        hashes=tuple(sorted(hashes)),
    )


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _extras(text: str, whole: str) -> tuple[str, ...]:
    extras = [part.strip() for part in text.split(",") if part.strip()]
    if not all(re.fullmatch(_NAME, extra) for extra in extras):
        raise NotARequirementError(f"{whole!r} names extras in a way nobody understands")
    return tuple(sorted({_normal(extra) for extra in extras}))


def _marker(text: str, whole: str) -> str:
    tokens = []
    position = 0
    while position < len(text):
        token = _MARKER_TOKEN.match(text, position)
        if token is None or not _is_harmless(token):
            raise NotARequirementError(f"{whole!r} has a condition that cannot be understood")
        quoted = token["single"] if token["single"] is not None else token["double"]
        tokens.append(token["word"] or token["operator"] or f'"{quoted}"')
        position = token.end()
    return " ".join(tokens)


def _is_harmless(token: re.Match[str]) -> bool:
    if token["word"]:
        return token["word"] in _MARKER_WORDS
    return not re.search(r"(?:^|\s)-", token["single"] or token["double"] or "")


def _why_not(text: str) -> str:
    if re.search(r"\s@|@\s|://|\A(?:git|hg|svn|bzr)\+|\Afile:", text):
        return f"{text!r} is an address: only packages by name are installed"
    if text.startswith((".", "/", "~")) or re.search(r"[/\\]", text) or _ARCHIVE.search(text):
        return f"{text!r} is a local path: only packages by name are installed"
    return f"{text!r} is not a requirement such as 'pandas>=2,<3'"
