"""A yes to a call: what it is given, who gave it, and what must not be seen of it afterwards."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from skillpouch.calls import NO_SECRETS, NOTHING_GIVEN, Given, ToolCall
from skillpouch.needs import Need
from skillpouch.secrets.redaction import Redactor
from skillpouch.untrusted_files import is_plain

BY_APPROVER = "the approver"


@dataclass(frozen=True, slots=True, kw_only=True)
class Permit:
    """What goes on record of a decision, and what the call may use."""

    digest: str = ""
    given: Given = NOTHING_GIVEN
    decision: str = "allowed"
    approved_by: str = ""
    redactor: Redactor = field(default=NO_SECRETS, repr=False)

    def applied_to(self, call: ToolCall) -> ToolCall:
        """Return the call with what it is given; of most calls that is nothing."""
        if self.redactor is call.redactor and self.given is call.given:
            return call
        return replace(call, given=self.given, redactor=self.redactor)


def given_for(needs: Sequence[Need], values: Mapping[str, str]) -> Given:
    """Return what a call may use when all of these were granted; `values` are its secrets."""
    if not needs:
        return NOTHING_GIVEN
    by_kind: dict[str, dict[str, None]] = {}
    for need in needs:
        by_kind.setdefault(need.kind, {})[need.value] = None
    return Given(
        secrets=values,
        readable=tuple(_existing(by_kind.get("read", ()))),
        writable=tuple(_existing(by_kind.get("write", ()))),
        hosts=tuple(by_kind.get("host", ())),
        packages=tuple(by_kind.get("packages", ())),
        programs=tuple(by_kind.get("program", ())),
        unconfined="unconfined" in by_kind,
    )


def _existing(paths: Iterable[str]) -> list[Path]:
    """Return the paths that are there and lead to themselves.

    They are kept without links: a link that was put in the place of one, perhaps by the very
    tool that may write beside it, leads to what nobody granted. It may still come later:
    whoever starts the tool opens each path once, in the same way, and uses what it opened.
    """
    return [Path(path) for path in paths if is_plain(path)]
