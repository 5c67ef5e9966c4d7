"""A rule: which calls it is about, what it answers, why, and examples that prove it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from skillpouch.errors import PortableError
from skillpouch.needs import Need
from skillpouch.policy.conditions import Condition
from skillpouch.policy.decisions import Request, Verdict
from skillpouch.policy.examples import Example
from skillpouch.policy.need_patterns import NeedPattern, parse_need
from skillpouch.policy.patterns import any_fits
from skillpouch.tools import Effect
from skillpouch.trust.paths import is_below, real_path

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
        problems.append(f"verdict is {rule.verdict!r}: say 'allow', 'ask' or 'deny'")
    known = get_args(Effect)
    problems += [
        f"{effect!r} is no effect: there are {', '.join(known)}"
        for effect in rule.effects
        if effect not in known
    ]
    return problems


def _unbound(rule: Rule) -> Iterable[str]:
    for path in rule.path:
        if not _plain(path):
            yield f"path {path!r} is no absolute path: write '/…' or '~/…'"
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
