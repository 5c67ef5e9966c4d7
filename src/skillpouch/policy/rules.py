"""Rules: which calls they match, which needs they grant, and examples that test them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from skillpouch.errors import PortableError
from skillpouch.needs import PLAIN_KINDS, Need, NeedKind, profile_of
from skillpouch.net.hosts import leads_inside
from skillpouch.policy.change_rules import ChangeConditions, ChangeFacts
from skillpouch.policy.conditions import Condition
from skillpouch.policy.patterns import NeedPattern, any_fits, parse_need
from skillpouch.text import visible
from skillpouch.tools import Effect
from skillpouch.trust.grant import is_below, real_path

Verdict = Literal["allow", "ask", "deny"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The facts of one call before it runs.

    `needs` are not granted yet, `granted` are. `confined` is false if the call runs without a
    sandbox; `first_use` is true if no call of this digest was ever approved. `home` is the folder
    of the skill and `workspace` the one that tools may write, both without links; "" if no rule
    depends on folders.
    """

    tool: str  # its id
    skill: str
    confined: bool
    first_use: bool
    effects: tuple[Effect, ...] = ("read", "write", "execute")
    arguments: Mapping[str, Any] = field(default_factory=dict)
    needs: tuple[Need, ...] = ()
    granted: tuple[Need, ...] = ()
    digest: str = ""
    name: str = ""  # the tool's name for models; rules that refuse may use it, too
    home: str = ""
    workspace: str = ""
    roots: tuple[str, ...] = ()  # the roots that the user named, for hints


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The verdict, the rules or needs that it comes from, and what would allow the call."""

    verdict: Verdict
    reasons: tuple[str, ...]
    hints: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A call to test a rule; the default skill is the part of the tool's id before the dot."""

    tool: str
    skill: str = ""
    effects: tuple[Effect, ...] = ("read", "write", "execute")
    arguments: Mapping[str, Any] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    changes: ChangeFacts | None = None  # what the call did to the workspace

    def request(self, home: str = "") -> Request:
        """Return this example as a request, for a skill in the folder `home`."""
        needs = tuple(_need(text) for text in self.needs)
        return Request(
            tool=self.tool,
            skill=self.skill or self.tool.partition(".")[0],
            effects=self.effects,
            arguments=self.arguments,
            needs=needs,
            confined=all(need.kind != "unconfined" for need in needs),
            first_use=False,
            home=home,
        )


def _need(text: str) -> Need:
    pattern = parse_need(text)
    return Need(kind=pattern.kind, value="" if pattern.kind in PLAIN_KINDS else pattern.value)


_LISTS = ("tools", "skills", "effects", "needs", "path", "when", "unless", "match", "no_match")
UNCONFINED = Need(kind="unconfined")


class RuleError(PortableError, ValueError):
    """A rule that is invalid or contradicts its examples; `problems` lists all reasons."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule matches a call if all of its fields match; an empty field matches every call.

    A rule that refuses (`ask`, `deny`) matches a call with *any* of the `effects` and `needs` it
    names. A rule that allows matches a call with *no other* effects, and grants only the needs it
    names. To grant needs it must name the skill's folder in `path`, because anybody can give a
    folder the name of a skill. All conditions in `when` must hold; if all in `unless` hold, the
    rule does not match. A rule with `changes` judges what a call did to the files of its workspace,
    after it ran and before that arrives; it says nothing about whether the call may run.
    """

    verdict: Verdict
    name: str = ""
    tools: Sequence[str] = ()
    skills: Sequence[str] = ()
    effects: Sequence[Effect] = ()
    needs: Sequence[str] = ()
    path: Sequence[str] = ()  # the skill's folder, or folders above it
    when: Sequence[Condition] = ()
    unless: Sequence[Condition] = ()
    changes: ChangeConditions | None = None
    reason: str = ""
    match: Sequence[Example] = ()
    no_match: Sequence[Example] = ()
    origin: str = ""  # the file it was read from
    need_patterns: tuple[NeedPattern, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in _LISTS:
            value = getattr(self, name)
            # A single text is a list of one: iterating over it would give letters.
            object.__setattr__(self, name, (value,) if isinstance(value, str) else tuple(value))
        problems = [*_wrong_words(self), *_unbound(self)]
        # Links are resolved now: a link that is made later must not change what the rule names.
        object.__setattr__(self, "path", tuple(map(_plain, self.path)))
        object.__setattr__(self, "need_patterns", _patterns(self.needs, problems))
        if not problems:
            problems = list(_failed_examples(self))
        if problems:
            raise RuleError(problems)

    @property
    def allows(self) -> bool:
        return self.verdict == "allow"

    @property
    def label(self) -> str:
        """The rule in messages: its name, or its verdict and tools."""
        return self.name or f"{self.verdict} {', '.join(self.tools or self.skills or ('*',))}"

    def is_about(self, request: Request) -> bool:
        """Tell whether the rule matches a call."""
        return self.fits(request.tool, request.skill, request.name) and self.applies(request)

    def judges(self, changes: ChangeFacts | None) -> bool:
        """Tell whether a rule about changes matches these."""
        if self.changes is None or changes is None:
            return False
        return self.changes.holds(changes, allows=self.allows)

    def fits(self, tool: str, skill: str, name: str = "") -> bool:
        """Tell whether the rule is about this tool of this skill, whatever the arguments.

        Rules use ids. A rule that refuses also matches the name that models use: a refusal that
        fails because of another spelling would protect nobody.
        """
        is_named = bool(name) and not self.allows and any_fits(self.tools, name)
        return (is_named or any_fits(self.tools, tool)) and any_fits(self.skills, skill)

    def applies(self, request: Request) -> bool:
        """Tell whether effects, needs, folder and arguments of a call match the rule."""
        return (
            (not self.effects or self._minds_effects(request.effects))
            and (not self.need_patterns or self.allows or self._minds_needs(request))
            and (not self.path or self._minds_place(request))
            and self._minds_arguments(request)
        )

    def _minds_place(self, request: Request) -> bool:
        above = [path for path in self.path if _lies_in(request.home, path)]
        if not self.allows or not _lies_in(request.home, request.workspace):
            return bool(above)
        # A skill inside the workspace must be named by a path inside it: tools can write the
        # workspace, and could add a skill below a folder above it.
        return any(is_below(path, request.workspace) for path in above)

    def _minds_effects(self, effects: tuple[Effect, ...]) -> bool:
        if self.allows:
            return bool(effects) and set(effects).issubset(self.effects)
        return not set(effects).isdisjoint(self.effects)

    def _minds_needs(self, request: Request) -> bool:
        needs = (*request.needs, *request.granted, *(() if request.confined else (UNCONFINED,)))
        return any(pattern.touches(need) for pattern in self.need_patterns for need in needs)

    def _minds_arguments(self, request: Request) -> bool:
        arguments, cautious = request.arguments, not self.allows
        if not all(condition.holds(arguments, cautious=cautious) for condition in self.when):
            return False
        # An exception to a refusal allows, so `cautious` is inverted.
        return not self.unless or not all(
            condition.holds(arguments, cautious=not cautious) for condition in self.unless
        )

    def settles(self, need: Need) -> bool:
        """Tell whether this allow rule grants a need."""
        return any(pattern.covers(need) for pattern in self.need_patterns)

    @property
    def settles_effects(self) -> bool:
        """Whether this allow rule allows effects: not if it names needs only."""
        return bool(self.effects) or not self.need_patterns


def _wrong_words(rule: Rule) -> list[str]:
    problems = []
    if rule.verdict not in get_args(Verdict):
        problems.append(f"verdict is {rule.verdict!r}: use 'allow', 'ask' or 'deny'")
    known = get_args(Effect)
    problems += [
        f"{effect!r} is not an effect: use one of {', '.join(known)}"
        for effect in rule.effects
        if effect not in known
    ]
    return problems


def _unbound(rule: Rule) -> Iterable[str]:
    for path in rule.path:
        if not _plain(path):
            yield f"path {path!r} is not an absolute path: write '/…' or '~/…'"
    if rule.changes is not None and rule.needs:
        yield "it judges changes, which come after the call was given its needs: leave out needs"
    if rule.verdict == "allow" and rule.needs and not rule.path:
        yield (
            f"it would give {', '.join(rule.needs)} to every skill that takes the name:"
            " add path, the folder of the skill or one above it"
        )


def _plain(path: str) -> str:
    """Return a path of a rule without links, "" if it is not absolute."""
    return real_path(str(Path(path).expanduser()) if path.startswith("~/") else path)


def _lies_in(path: str, folder: str) -> bool:
    return bool(path and folder) and (path == folder or is_below(path, folder))


def _patterns(needs: Sequence[str], problems: list[str]) -> tuple[NeedPattern, ...]:
    found = []
    for text in needs:
        try:
            found.append(parse_need(text))
        except ValueError as error:
            problems.append(str(error))
    return tuple(found)


def _failed_examples(rule: Rule) -> Iterable[str]:
    for kind, examples, wanted in (
        ("match", rule.match, True),
        ("no_match", rule.no_match, False),
    ):
        for number, example in enumerate(examples, 1):
            is_about = rule.is_about(example.request(rule.path[0] if rule.path else ""))
            if rule.changes is not None:
                is_about = is_about and rule.judges(example.changes)
            if is_about is not wanted:
                does = "does not match" if wanted else "matches"
                yield f"the rule {does} examples.{kind} {number} ({example.tool})"


Mode = Literal["trusting", "careful", "strict"]
# The kinds of needs that a trusting policy grants when a skill declares them. Never paths, and
# never memory, devices or running unconfined: these affect more than the skill itself.
_TRUSTED = ("secret", "setting", "host", "packages", "local-sockets")


@dataclass(frozen=True, slots=True, kw_only=True)
class Concern:
    """One thing that needs an approval: a need, an effect, or the first use of a digest."""

    about: Need | Literal["destructive", "network", "first_use"]
    reason: str

    def is_settled_by(self, rule: Rule) -> bool:
        """Tell whether an allow rule that matches the call settles this concern."""
        if isinstance(self.about, Need):
            return rule.settles(self.about)
        return self.about != "first_use" and rule.settles_effects


def concerns_of(request: Request, mode: Mode) -> Iterator[Concern]:
    """Yield what has to be approved before a call may run. A stricter mode never yields less."""
    for need in _open_needs(request):
        if not (mode == "trusting" and is_trusted(need)):
            yield Concern(about=need, reason=reason_for(need))
    if "destructive" in request.effects:
        yield Concern(about="destructive", reason="it can destroy what cannot be restored")
    if mode != "trusting" and "network" in request.effects and not _names_host(request):
        yield Concern(about="network", reason="it uses the network and does not say which hosts")
    if mode == "strict" and request.first_use:
        reason = "no call of this version of the skill was approved yet"
        yield Concern(about="first_use", reason=reason)


def is_trusted(need: Need) -> bool:
    """Tell whether a policy that trusts declarations grants this need.

    Internal hosts are never trusted: this machine, its network, and the metadata service from
    which a cloud machine gets its keys. They need a grant by name.
    """
    is_inside = need.kind == "host" and leads_inside(need.value)
    return need.declared and need.kind in _TRUSTED and not is_inside


def _open_needs(request: Request) -> tuple[Need, ...]:
    if request.confined:
        return request.needs
    said = any(need.kind == "unconfined" for need in (*request.needs, *request.granted))
    return request.needs if said else (*request.needs, UNCONFINED)


def _names_host(request: Request) -> bool:
    return any(need.kind == "host" for need in (*request.needs, *request.granted))


_WANTS: dict[NeedKind, str] = {
    "secret": "the secret {}",
    "setting": "the setting {}",
    "host": "to reach {}",
    "read": "to read {}",
    "write": "to write {}",
    "packages": "the package {}",
    "build": "to build the package {}, which runs code of it",
    "program": "to run the program {}",
    "local-sockets": "local sockets",
    "loopback": "loopback",
    "memory": "{} of memory",
    "devices": "the device {}",
    "time": "up to {} for a call",
    "own-folder": "to write in its own folder and to keep {} there",
    "commands": "what it was granted for commands",
    "unconfined": "to run without confinement",
}


def reason_for(need: Need) -> str:
    """Return the message about a need that was not granted."""
    asked = f" (asked in {visible(need.asked_in)})" if need.asked_in else ""
    # Untrusted text, shown on terminals.
    wants = _WANTS[need.kind].format(visible(need.value))
    return f"it needs {wants}{asked}, which was not granted{_explained(need)}"


def _explained(need: Need) -> str:
    profile = profile_of(need.kind)
    return "" if profile is None else f" ({profile[0]}; the risk: {profile[1]})"
