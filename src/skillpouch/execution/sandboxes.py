"""SandboxProvider: turns a command into a confined one; ours, and those of other packages."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol, get_args

from skillpouch.errors import SandboxFailedError, SkillpouchError
from skillpouch.execution.command import Command
from skillpouch.execution.confinement import Plan, plan, plan_around
from skillpouch.execution.machine import Machine
from skillpouch.limits import Layer

_SHOWN = (*get_args(Layer), "temp")  # the layers that a result reports


class SandboxProvider(Protocol):
    """Returns a command that reaches no more than `command.confinement` allows; starts nothing.

    A provider of another package puts its own program in front of `argv`, and names in
    `protections` each layer that it enforces, with a word for people: `{"fs": "bwrap", …}`. It may
    also change `env` and `cwd`; changes to other fields are ignored.
    """

    def confine(self, command: Command) -> Command: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSandbox:
    """Our own provider: a zygote carries out the plan, with the features of this kernel."""

    machine: Machine

    def confine(self, command: Command) -> Command:
        """Return the command with its plan; raise SandboxUnavailableError if there is none."""
        assert command.confinement is not None
        return replace(command, plan=plan(command.confinement, self.machine))


@dataclass(frozen=True, slots=True, kw_only=True)
class NoSandbox:
    """What `sandbox="off"` names: limits, and the certainty that nothing outlives the call."""

    machine: Machine

    def confine(self, command: Command) -> Command:
        assert command.confinement is not None
        bare = replace(command.confinement, sandbox="off")
        return replace(command, plan=plan(bare, self.machine))


OwnSandbox = KernelSandbox | NoSandbox
_OURS: dict[str, type[OwnSandbox]] = {"on": KernelSandbox, "off": NoSandbox}
_loaded: dict[str, SandboxProvider] = {}


def provider_named(name: str, machine: Machine) -> SandboxProvider:
    """Return the provider for `sandbox=name`."""
    if name in _OURS:
        return _OURS[name](machine=machine)
    if name not in _loaded:
        # Imported here: our own sandbox does not need it.
        from skillpouch.runtime.entry_points import SANDBOXES, load_provided

        _loaded[name] = load_provided(SANDBOXES, name, "confine")
    return _loaded[name]


def confined_by(
    provider: SandboxProvider, command: Command, machine: Machine
) -> tuple[Command, Plan]:
    """Return a command as a provider confines it, and the plan by which it is started.

    Raises:
        SandboxUnavailableError: a required layer is missing.
        SandboxFailedError: the provider raised another error, or returned no valid command.
    """
    assert command.confinement is not None
    try:
        made = provider.confine(command)
        _check(provider, made)
    except SkillpouchError:
        raise
    except Exception as error:  # its own, or because a field is none of the kind that it should be
        name = type(provider).__name__
        raise SandboxFailedError(f"{name} raised {type(error).__name__}: {error}") from error
    if made.plan is not None:
        return made, made.plan
    around = plan_around(command.confinement, made.protections, machine)
    # Only these fields are taken from a provider. Not `warm`: a warm process would run outside the
    # provider's sandbox.
    return replace(command, argv=made.argv, env=made.env, cwd=made.cwd, warm=None), around


def _check(provider: SandboxProvider, made: object) -> None:
    name = type(provider).__name__
    if not isinstance(made, Command):
        raise SandboxFailedError(f"{name} returned a {type(made).__name__}, not a Command")
    texts: tuple[object, ...]
    texts = (*made.argv, *made.env, *made.env.values(), *made.protections.values())
    wrong = [type(each).__name__ for each in texts if not isinstance(each, str)]
    if wrong:
        raise SandboxFailedError(f"{name} returned a command with {wrong[0]} in place of a text")
    if not made.argv or not made.argv[0].startswith("/"):
        raise SandboxFailedError(f"{name} returned a command without the path of a program")
    unknown = _unknown(made.protections)
    if unknown:
        known = ", ".join(_SHOWN)
        raise SandboxFailedError(f"{name} names protections {unknown}: there are {known}")


def _unknown(protections: Mapping[str, str]) -> str:
    return ", ".join(sorted(set(protections) - set(_SHOWN)))
