"""Rules: which calls they match, which needs they give, and examples that prove it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from skillpouch.errors import PortableError
from skillpouch.needs import Need
from skillpouch.net.hosts import leads_inside
from skillpouch.policy.conditions import Condition
from skillpouch.policy.patterns import NeedPattern, any_fits, parse_need
from skillpouch.text import visible
from skillpouch.tools import Effect
from skillpouch.trust.grant import is_below, real_path

Verdict = Literal["allow", "ask", "deny"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The facts of one call before it runs.

    `needs` are those that nobody granted yet, `granted` those that somebody did. `confined` is
    false when nothing will hold the call; `first_use` is true when no call of this digest was
    ever approved. `home` is the folder of the skill and `workspace` what tools may write, both
    without links; "" where no rule minds places.
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
    name: str = ""  # by which models call the tool; a rule that refuses may say that, too
    home: str = ""
    workspace: str = ""
    roots: tuple[str, ...] = ()  # where the skill was found, when that had to be said


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The verdict, which rule or need it comes from, and what exactly would allow the call."""

    verdict: Verdict
    reasons: tuple[str, ...]
    hints: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A call as a rule sees it; the skill is what stands before the first dot of the id."""

    tool: str
    skill: str = ""
    effects: tuple[Effect, ...] = ("read", "write", "execute")
    arguments: Mapping[str, Any] = field(default_factory=dict)
    needs: tuple[str, ...] = ()

    def request(self, home: str = "") -> Request:
        """Return the call that this example stands for, of a skill that lies in `home`."""
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
    return Need(kind=pattern.kind, value="" if pattern.kind == "unconfined" else pattern.value)


_LISTS = ("tools", "skills", "effects", "needs", "path", "when", "unless", "match", "no_match")
UNCONFINED = Need(kind="unconfined")


class RuleError(PortableError, ValueError):
    """A rule that cannot mean what was meant; `problems` are all of them."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What is left out, a rule does not mind; what is named must all be so.

    A rule that refuses (`ask`, `deny`) is about a call with *any* of the `effects` and `needs`
    it names. A rule that allows is about a call with *no other* effects, and settles only the
    needs it names. Such a rule says by `path` in which folder the skill lies: a name is taken by
    whoever writes a folder of that name. `when` lists conditions that must all hold; when all
    of `unless` hold, the rule is not about the call.
    """

    verdict: Verdict
    name: str = ""
    tools: Sequence[str] = ()
    skills: Sequence[str] = ()
    effects: Sequence[Effect] = ()
    needs: Sequence[str] = ()
    path: Sequence[str] = ()  # folders in which, or below which, the skill lies
    when: Sequence[Condition] = ()
    unless: Sequence[Condition] = ()
    reason: str = ""
    match: Sequence[Example] = ()
    no_match: Sequence[Example] = ()
    origin: str = ""  # the file it was read from
    need_patterns: tuple[NeedPattern, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in _LISTS:
            value = getattr(self, name)
            # A single text would be taken for a list of letters, and the rule for another one.
            object.__setattr__(self, name, (value,) if isinstance(value, str) else tuple(value))
        problems = [*_wrong_words(self), *_unbound(self)]
        # Where they lead now: a link that is put there later leads to what nobody named.
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
        """What people call the rule: its name, or what it says."""
        return self.name or f"{self.verdict} {', '.join(self.tools or self.skills or ('*',))}"

    def is_about(self, request: Request) -> bool:
        """Tell whether tool and skill fit, and then everything else."""
        return self.fits(request.tool, request.skill, request.name) and self.applies(request)

    def fits(self, tool: str, skill: str, name: str = "") -> bool:
        """Tell whether the rule is about this tool of this skill, whatever the call.

        Rules name ids. One that refuses is also about the name that models use: a refusal that
        misses because of its spelling protects nobody.
        """
        is_named = bool(name) and not self.allows and any_fits(self.tools, name)
        return (is_named or any_fits(self.tools, tool)) and any_fits(self.skills, skill)

    def applies(self, request: Request) -> bool:
        """Tell whether effects, needs and arguments of a call are what the rule is about."""
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
        # What tools may write is named itself, not by a folder in which all of it lies.
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
        # An exception to a refusal is a permission, so doubt counts the other way round.
        return not self.unless or not all(
            condition.holds(arguments, cautious=not cautious) for condition in self.unless
        )

    def settles(self, need: Need) -> bool:
        """Tell whether this allow rule gives what the call needs."""
        return any(pattern.covers(need) for pattern in self.need_patterns)

    @property
    def settles_effects(self) -> bool:
        """Whether this allow rule is about effects: not when needs are all that it names."""
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
    if rule.verdict == "allow" and rule.needs and not rule.path:
        yield (
            f"it would give {', '.join(rule.needs)} to every skill that takes the name:"
            " add path, the folder of the skill or one above it"
        )


def _plain(path: str) -> str:
    """Return where a path of a rule really leads, "" for one that begins nowhere."""
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
            if rule.is_about(example.request(rule.path[0] if rule.path else "")) is not wanted:
                does = "does not match" if wanted else "matches"
                yield f"the rule {does} examples.{kind} {number} ({example.tool})"


Mode = Literal["trusting", "careful", "strict"]
# What a skill may have by declaring it, for those who trust declarations. Never a folder, and
# never doing without confinement: those reach beyond what the skill itself is about.
_TRUSTED = ("secret", "host", "packages")


@dataclass(frozen=True, slots=True, kw_only=True)
class Concern:
    """One thing that needs an approval: a need, an effect, or the first use of a digest."""

    about: Need | Literal["destructive", "network", "first_use"]
    reason: str

    def is_settled_by(self, rule: Rule) -> bool:
        """Tell whether an allow rule that is about the call allows this."""
        if isinstance(self.about, Need):
            return rule.settles(self.about)
        return self.about != "first_use" and rule.settles_effects


def concerns_of(request: Request, mode: Mode) -> Iterator[Concern]:
    """Yield what stands between a call and an allowed one. A stricter mode never yields less."""
    for need in _open_needs(request):
        if not (mode == "trusting" and is_trusted(need)):
            yield Concern(about=need, reason=reason_for(need))
    if "destructive" in request.effects:
        yield Concern(about="destructive", reason="it can destroy what cannot be restored")
    if mode != "trusting" and "network" in request.effects and not _names_host(request):
        yield Concern(about="network", reason="it uses the network and does not say which hosts")
    if mode == "strict" and request.first_use:
        reason = "no call of the skill as it is now was ever approved"
        yield Concern(about="first_use", reason=reason)


def is_trusted(need: Need) -> bool:
    """Tell whether a policy that trusts declarations gives this need.

    A host inside is not the skill's to declare: this machine, its network, where it learns its
    keys. Whoever grants it has to name it.
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


def reason_for(need: Need) -> str:
    """Say that a call needs something and was not granted it."""
    asked = f" (asked in {visible(need.asked_in)})" if need.asked_in else ""
    value = visible(need.value)  # untrusted text that people read on terminals
    wants = {
        "secret": f"the secret {value}",
        "host": f"to reach {value}",
        "read": f"to read {value}",
        "write": f"to write {value}",
        "packages": f"the package {value}",
        "program": f"to run the program {value}",
        "unconfined": "to run without confinement",
    }[need.kind]
    return f"it needs {wants}{asked}, which was not granted"
