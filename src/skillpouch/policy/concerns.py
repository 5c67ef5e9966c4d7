"""What a policy asks about when no rule speaks: needs, effects, running unconfined, first use."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from skillpouch.needs import Need
from skillpouch.net.addresses import leads_inside
from skillpouch.policy.decisions import Request
from skillpouch.policy.rules import UNCONFINED, Rule
from skillpouch.trust.visible import visible

Mode = Literal["trusting", "careful", "strict"]
# What a skill may have by declaring it, for those who trust declarations. Never a folder, and
# never doing without confinement: those reach beyond what the skill itself is about.
_TRUSTED = ("secret", "host", "packages")


@dataclass(frozen=True, slots=True, kw_only=True)
class Concern:
    """One thing that needs a yes: a need, an effect, or the first use of a digest."""

    about: Need | Literal["destructive", "network", "first_use"]
    reason: str

    def is_settled_by(self, rule: Rule) -> bool:
        """Tell whether an allow rule that is about the call says yes to this."""
        if isinstance(self.about, Need):
            return rule.settles(self.about)
        return self.about != "first_use" and rule.settles_effects


def concerns_of(request: Request, mode: Mode) -> Iterator[Concern]:
    """Yield what stands between a call and an allowed one. A stricter mode never yields less."""
    for need in _open_needs(request):
        if not (mode == "trusting" and is_trusted(need)):
            yield Concern(about=need, reason=reason_for(need))
    if "destructive" in request.effects:
        yield Concern(about="destructive", reason="it can destroy what cannot be brought back")
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
    value = visible(need.value)  # strangers wrote it, and people read it on terminals
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
