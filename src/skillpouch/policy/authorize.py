"""Authorizer: decides whether a call may run, and what it may reach.

`Authorizer.permit` does all of it, in this order:

1. Refuse a script that the skill's `allowed-tools` leave out.
2. Take the digest of the skill, and find the grant for exactly this content.
3. Find what the call needs beyond this grant.
4. Apply the rules of the policy, to every way in which a program may read the arguments.
5. Refuse needs that can never be granted.
6. Look for an earlier approval; without one, ask the approver.
7. Look up the values of secrets.

Each step can refuse. `limits_of` in limit_rules.py decides how long the call may take.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from skillpouch.calls import CONFINED, Access, Fetched, ToolCall
from skillpouch.discovery.digest import FolderSnapshot, snapshot_of
from skillpouch.errors import (
    CallDeniedError,
    SandboxUnavailableError,
    SkillpouchError,
    ToolRestrictionError,
)
from skillpouch.limits import UsualSeconds, read_time
from skillpouch.needs import Need, needs_no_grant
from skillpouch.policy.approval import Answer, Approver, Question, ask, describe_command
from skillpouch.policy.change_rules import ChangeFacts
from skillpouch.policy.conditions import readings
from skillpouch.policy.policy import Policy
from skillpouch.policy.rules import Decision, Request
from skillpouch.results import FileChange
from skillpouch.runtime.memoize import BoundedCache
from skillpouch.secrets.redaction import NO_SECRETS, Redactor
from skillpouch.secrets.sources import Secrets, SecretValues, environment_secrets
from skillpouch.tools import BuiltIn, External, Function, Hosted, Tool
from skillpouch.trust.call_needs import (
    CallNeeds,
    access_for,
    is_lacking,
    needs_time,
    skill_of,
    with_access,
)
from skillpouch.trust.errors import (
    GrantRefusedError,
    PinDiffersError,
    SecretUnsetError,
    SkillChangedError,
    trust_command,
)
from skillpouch.trust.grant import Grant, missing, pin_of, pinned_hash, real_path
from skillpouch.trust.grantable import grantable
from skillpouch.trust.grants import Grants

BY_APPROVER = "the approver"


@dataclass(frozen=True, slots=True, kw_only=True)
class Permit:
    """A decision for the journal, and what the call may use."""

    digest: str = ""
    access: Access = CONFINED
    decision: str = "allowed"
    approved_by: str = ""
    redactor: Redactor = field(default=NO_SECRETS, repr=False)

    def applied_to(self, call: ToolCall) -> ToolCall:
        """Return the call with its access; most calls need none, and are returned unchanged."""
        is_plain = self.redactor is call.redactor and self.access is call.access
        if is_plain and not needs_time(call.limits):
            return call
        limits = with_access(call.limits, self.access)
        return replace(call, access=self.access, redactor=self.redactor, limits=limits)


_MOST_KNOWN = 4096


class PermitCache:
    """Caches permits of tools without a folder and without grants, by all that a policy reads.

    Arguments are not part of the key: only decisions that do not depend on them are cached.
    """

    def __init__(self) -> None:
        self._known: BoundedCache[tuple[Any, ...] | None, Permit] = BoundedCache(_MOST_KNOWN)

    def of(self, call: ToolCall) -> Permit | None:
        """Return the cached permit for a call, None if it has to be decided."""
        return self._known.get(_key(call))

    def keep(self, call: ToolCall, permit: Permit) -> None:
        """Cache a permit, unless a later call of the tool may be decided differently."""
        key = _key(call)
        if key is None:
            return
        self._known[key] = permit


def _key(call: ToolCall) -> tuple[Any, ...] | None:
    """Return all that a policy reads of a tool; None if a decision depends on more than that."""
    tool, runs = call.tool, call.tool.runs
    # Any other kind of tool belongs to a skill, which needs grants and can change.
    if not isinstance(runs, Function | Hosted) or (isinstance(runs, Hosted) and runs.granted):
        return None
    if tool.home or tool.allowed_tools is not None or call.terms.sandbox == "off":
        return None
    return tool.id, tool.skill, tool.name, tuple(tool.effects), type(runs)


_UNCONFINED = Need(kind="unconfined")
_STRICTNESS = {"allow": 0, "ask": 1, "deny": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """One call before the decision. `barred` are the reasons that no approval can overrule."""

    tool: Tool
    seen: FolderSnapshot | None
    grant: Grant | None
    request: Request
    barred: tuple[str, ...] = ()
    outdated: Grant | None = None  # the last grant, if the skill has changed since

    @property
    def all_needs(self) -> tuple[Need, ...]:
        return (*self.request.granted, *self.request.needs)


class Authorizer:
    """Decides about the calls of one executor, and remembers approvals for its session."""

    def __init__(
        self,
        *,
        policy: Policy,
        approver: Approver | None = None,
        grants: Grants | None = None,
        secrets: Secrets = environment_secrets,
        session: str | None = None,
        roots: Sequence[str] = (),
    ) -> None:
        self.policy = policy
        self._approver = approver
        self._grants = grants or Grants()
        self._session = session
        self._secrets = SecretValues(secrets, session)
        self._roots = tuple(roots)
        self._needs = CallNeeds(proposes=approver is not None)
        self._said: set[_Said] = set()
        self._standing = PermitCache()

    def standing(self, call: ToolCall) -> Permit | None:
        """Return the permit that holds for all calls of this tool, None if there is none."""
        return self._standing.of(call)

    async def permit(self, call: ToolCall) -> Permit:
        """Return the permit for a call; raise CallDeniedError if it may not run."""
        tool = call.tool
        if tool.allowed_tools is not None and self.policy.allowed_tools == "enforce":
            raise ToolRestrictionError(tool.skill, tool.allowed_tools)
        case = self.case(call)
        decision = _with_changes(case, self._decide(case.request, call))
        if decision.verdict == "deny" or case.barred:
            raise _denial(tool, decision, *case.barred)
        if decision.verdict == "allow":
            permit = self._permit(case, "allowed", _who(case, decision))
            if not self.policy.minds_arguments(case.request):
                self._standing.keep(call, permit)
            return permit
        if self._was_said(case, decision):
            return self._permit(case, "approved", "an earlier approval")
        answer = await self._ask(case, decision, call.said)
        if not answer.yes:
            raise _denial(tool, decision, answer.reason)
        _refuse_changed(case)
        self._remember(case, decision, answer)
        return self._permit(case, "approved", BY_APPROVER)

    async def without_sandbox(self, call: ToolCall, error: SandboxUnavailableError) -> ToolCall:
        """Return the call unconfined, if the user consented to that; raise `error` if not.

        To be called on a machine without a sandbox, before anything ran. The consent does not
        overrule required protections or a sandbox that was chosen by its name, and a rule can still
        deny the call.
        """
        is_ours = call.terms.sandbox == "on" and not call.is_unconfined
        if not is_ours or call.terms.required or self._grants.consent() is None:
            raise error
        await self.permit(replace(call, terms=replace(call.terms, sandbox="off")))
        return replace(call, access=replace(call.access, unconfined=True))

    async def vouch(self, call: ToolCall, fetched: Fetched) -> None:
        """Ask for approval of a downloaded program, and pin its hash to the skill's content.

        Raises:
            CallDeniedError: it was not approved.
            PinDiffersError: another hash of this address was pinned meanwhile.
        """
        case = self.case(call)
        pinned = pinned_hash(fetched.url, case.grant.programs if case.grant else ())
        if pinned == fetched.sha256:
            return
        if pinned is not None:
            raise PinDiffersError(call.tool.skill, fetched.url, pinned, fetched.sha256)
        need = Need(kind="program", value=pin_of(fetched.url, fetched.sha256))
        request = replace(case.request, needs=(need,), first_use=False)
        case, decision = replace(case, request=request), self.policy.decide(request)
        if decision.verdict != "allow":
            await self._have_vouched(case, decision, call, fetched)
        skill = skill_of(case.tool)
        if skill is not None:
            by = "policy" if decision.verdict == "allow" else "approver"
            self._grants.grant(skill, [need], by=by, seen=case.seen)

    async def _have_vouched(
        self, case: _Case, decision: Decision, call: ToolCall, fetched: Fetched
    ) -> None:
        came = f"{fetched.size_bytes:,} bytes came from {fetched.host}"
        why = f"{came}, and no hash confirms that they are the right ones"
        decision = replace(decision, reasons=(why, *decision.reasons))
        if decision.verdict == "deny":
            raise _denial(case.tool, decision)
        answer = await self._ask(case, decision, call.said, runs=str(fetched))
        if not answer.yes:
            raise _denial(case.tool, decision, answer.reason)
        _refuse_changed(case)

    def judge_changes(self, call: ToolCall, facts: ChangeFacts) -> Decision:
        """Decide whether what a call did to its workspace may arrive there, without asking."""
        if not self.policy.minds_changes(facts):
            return Decision(verdict="allow", reasons=())
        try:
            request = self.case(call).request
        except SkillpouchError as error:  # its skill has changed, or is gone
            return Decision(verdict="deny", reasons=(str(error),))
        judged = (
            self.policy.judge_changes(replace(request, arguments=each), facts)
            for each in readings(call)
        )
        return max(judged, key=lambda decision: _STRICTNESS[decision.verdict])

    async def ask_about_changes(
        self, call: ToolCall, decision: Decision, changes: tuple[FileChange, ...], diff: str
    ) -> Answer:
        """Show somebody what a call changed, and ask whether that may arrive."""
        return await self._ask(self.case(call), decision, call.said, changes=changes, diff=diff)

    def refusal(self, call: ToolCall, error: SkillpouchError) -> Permit:
        """Return the journal's entry for a call that may not run, or cannot be started."""
        decision = "denied" if isinstance(error, CallDeniedError) else "allowed"
        try:
            case = self.case(call)
        except SkillpouchError:  # perhaps the same error for which the call was refused
            return Permit(decision=decision)
        redactor = self._secrets.redactor(self._secrets.of(case.request.granted))
        return Permit(digest=case.request.digest, decision=decision, redactor=redactor)

    def _decide(self, request: Request, call: ToolCall) -> Decision:
        if not self.policy.minds_arguments(request):
            return self.policy.decide(request)
        # The strictest decision counts: a call is refused if one of its readings is.
        found = (self.policy.decide(replace(request, arguments=each)) for each in readings(call))
        return max(found, key=lambda decision: _STRICTNESS[decision.verdict])

    def case(self, call: ToolCall) -> _Case:
        tool = call.tool
        seen, last = self._last_grant(tool)
        is_ours = seen is None
        digest = seen.digest if seen else ""
        grant = last if last is not None and last.digest == digest else None
        wanted = [need for need in self._needs.of(tool, digest) if is_lacking(need, call.limits)]
        is_approved = _is_external_approved(tool, grant)
        if is_approved:
            wanted = [need for need in wanted if need.kind != "unconfined"]
        # With the values of settings: whoever is asked sees them.
        lacking = self._secrets.resolved(missing(wanted, grant)) if wanted else ()
        needed, barred = _grantable(lacking, tool.home) if wanted else ((), ())
        said = (_UNCONFINED,) if is_approved or call.terms.sandbox == "off" else ()
        places = self.policy.minds_places and not is_ours
        request = Request(
            tool=tool.id,
            skill=tool.skill,
            confined=_is_confined(call),
            first_use=grant is None and not is_ours,
            effects=tool.effects,
            arguments=call.arguments,
            needs=needed,
            granted=(
                *self._needs.granted(tool, digest, grant),
                *filter(needs_no_grant, wanted),
                *said,
                *_configured(tool),
            ),
            digest=digest,
            name=tool.name,
            home=real_path(tool.place) if places else "",
            workspace=real_path(str(call.terms.workspace)) if places else "",
            roots=self._roots,
        )
        outdated = last if grant is None else None
        return _Case(
            tool=tool, seen=seen, grant=grant, request=request, barred=barred, outdated=outdated
        )

    def _last_grant(self, tool: Tool) -> tuple[FolderSnapshot | None, Grant | None]:
        """Return a skill as it is, and what it was granted last; None for the host's own tools."""
        is_ours = isinstance(tool.runs, Function | Hosted) or not tool.home
        seen = None if is_ours else snapshot_of(tool.home)
        last = self._grants.last(tool.skill, tool.place) if seen else None
        if seen and last and last.digest == seen.digest and not tool.copied_from:
            # A grant is for exact bytes, so all are read again; not of a copy: nobody can write it.
            seen = snapshot_of(tool.home, reread=True)
        return seen, last

    def granted_seconds(self, tool: Tool) -> float | None:
        """Return how long a call of a tool may take by its grant, None if it was granted none."""
        seen, last = self._last_grant(tool)
        if seen is None or last is None or last.digest != seen.digest:
            return None
        return access_for(self._needs.granted(tool, seen.digest, last), {}, {}).seconds

    def most_seconds(self, tool: Tool, seconds: float) -> float:
        """Return the time limit of a call if the last grant of its skill counts: none is longer.

        Whether it counts is found out when the call is made; here no file of the skill is read.
        """
        if not isinstance(seconds, UsualSeconds) or not tool.home:
            return seconds
        last = self._grants.last(tool.skill, tool.place)
        return seconds.with_grant(read_time(last.time)) if last and last.time else seconds

    def _was_said(self, case: _Case, decision: Decision) -> bool:
        if case.grant is not None and case.tool.id in case.grant.tools and not case.request.needs:
            return True
        return _said(case, decision) in self._said

    async def _ask(
        self,
        case: _Case,
        decision: Decision,
        said: dict[str, Any],
        *,
        runs: str = "",
        **changed: Any,
    ) -> Answer:
        # Only granted secrets are looked up, even for redaction.
        redactor = self._secrets.redactor(self._secrets.of(case.request.granted))
        question = Question(
            tool=case.tool.id,
            skill=case.tool.skill,
            runs=runs or describe_command(case.tool),
            arguments=redactor.value(said),
            needs=case.request.needs,
            reasons=decision.reasons,
            digest=case.request.digest,
            session=self._session or "",
            **changed,
        )
        return await ask(self._approver, question, self.policy.answer_seconds)

    def _remember(self, case: _Case, decision: Decision, answer: Answer) -> None:
        at_place = replace(case.tool, home=case.tool.place)
        # What an agent wrote for a skill is not under its digest, so nothing is kept for it.
        is_kept = case.seen and not isinstance(case.tool.runs, BuiltIn)
        skill = skill_of(at_place) if is_kept and answer.remember == "always" else None
        if skill is not None:
            # A new version of a package would replace the granted one, which another script of the
            # skill may need: so the granted packages are granted again, together with the new.
            kept = case.grant.packages if case.grant else ()
            needs = [*(Need(kind="packages", value=each) for each in kept), *case.request.needs]
            if isinstance(case.tool.runs, External):
                # Approved was what this backend does. A grant would let every script of the skill
                # run unconfined; the name of the tool in the grant is enough for this one.
                needs = [need for need in needs if need.kind != "unconfined"]
            self._grants.grant(skill, needs, by="approver", tools=[case.tool.id], seen=case.seen)
        elif answer.remember != "once":
            # For a function "always" means this session: there are no files to bind a grant to.
            self._said.add(_said(case, decision))

    def _permit(self, case: _Case, decision: str, by: str) -> Permit:
        needs = case.all_needs
        if not needs:  # the usual case
            return Permit(digest=case.request.digest, decision=decision, approved_by=by)
        values, settings = self._secrets.of(needs), self._secrets.settings(needs)
        named = [n.value for n in needs if n.kind in ("secret", "setting") and "=" not in n.value]
        unset = [name for name in named if name not in values and name not in settings]
        required = {need.value for need in self._needs.of(case.tool, case.request.digest)}
        if lacking := [name for name in unset if name in required]:
            raise SecretUnsetError(case.tool.skill, lacking)
        return Permit(
            digest=case.request.digest,
            access=access_for(needs, values, settings, digest=case.request.digest, unset=unset),
            decision=decision,
            approved_by=by,
            redactor=self._secrets.redactor(values),
        )


# The key of an approval for a session: if another rule asks, or for another need, ask again.
_Said = tuple[str, str, tuple[Need, ...], tuple[str, ...]]


def _said(case: _Case, decision: Decision) -> _Said:
    return case.tool.id, case.request.digest, case.request.needs, decision.reasons


def _is_confined(call: ToolCall) -> bool:
    """Tell whether a call is confined; the host's own functions count as confined."""
    if isinstance(call.tool.runs, Function | Hosted):
        return True
    # A backend of another package is not: the user installed it, but a skill passes its options.
    return call.terms.sandbox != "off" and not isinstance(call.tool.runs, External)


def _is_external_approved(tool: Tool, grant: Grant | None) -> bool:
    """Tell whether an approver allowed this tool of another package's backend for good."""
    return isinstance(tool.runs, External) and grant is not None and tool.id in grant.tools


def _configured(tool: Tool) -> tuple[Need, ...]:
    return tool.runs.granted if isinstance(tool.runs, Hosted) else ()


def _grantable(needs: Iterable[Need], home: str) -> tuple[tuple[Need, ...], tuple[str, ...]]:
    """Return needs as they would be granted, and the reasons why some can never be granted.

    Paths are returned without links: this is what an approver sees and approves.
    """
    found, barred = [], []
    for need in needs:
        try:
            found.append(grantable(need, home))
        except GrantRefusedError as error:
            found.append(need)
            barred.append(str(error))
    return tuple(found), tuple(barred)


def _denial(tool: Tool, decision: Decision, *reasons: str) -> CallDeniedError:
    return CallDeniedError(
        tool=tool.id, reasons=(*decision.reasons, *reasons), hints=decision.hints
    )


def _with_changes(case: _Case, decision: Decision) -> Decision:
    """Add to a decision that the skill had a grant, and which files changed since."""
    last, seen = case.outdated, case.seen
    if decision.verdict != "ask" or last is None or seen is None:
        return decision
    if not any(last.covers(need) for need in case.request.needs):
        return decision
    # Imported here: only skills that changed after a grant need it.
    from skillpouch.trust.review import changes_between, in_short

    changes = changes_between(last.manifest, seen.manifest) if last.manifest else ()
    reason = f"it was granted {last.when}, and {in_short(changes)}"
    renew = trust_command(case.tool.skill, (), roots=case.request.roots, renew=True)
    return replace(decision, reasons=(*decision.reasons, reason), hints=(renew, *decision.hints))


def _refuse_changed(case: _Case) -> None:
    """Refuse a skill that changed while the approver decided, which may take minutes."""
    if case.seen is not None and snapshot_of(case.tool.home).digest != case.seen.digest:
        raise SkillChangedError(case.tool.skill)


def _who(case: _Case, decision: Decision) -> str:
    rules = [reason for reason in decision.reasons if reason.startswith("rule ")]
    if rules:
        return rules[0]
    return "a grant" if case.grant is not None else ""
