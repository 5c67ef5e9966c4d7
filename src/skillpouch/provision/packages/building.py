"""Builds an environment once: locked, confined, with progress, and never left half done."""

import asyncio
import re
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from skillpouch.declarations.packages.declared_files import InstallError
from skillpouch.environment import base_environment
from skillpouch.execution.command import Command, Ended
from skillpouch.execution.confinement import Confinement
from skillpouch.execution.engine import run_command
from skillpouch.execution.zygote_client import probe
from skillpouch.limits import Limits, Sandbox
from skillpouch.needs import Need
from skillpouch.provision.packages.housekeeping import share_files
from skillpouch.provision.packages.ready import Environment, environment_at
from skillpouch.provision.packages.recipe import Recipe, RecipeError, Step, own_python
from skillpouch.provision.packages.store import (
    downloads_folder,
    find_ready,
    hold,
    leftovers,
    remove,
    write_ready,
)
from skillpouch.text import clean
from skillpouch.trust.errors import trust_command
from skillpouch.trust.grant import split_package

_LAST_LINES = 12
_LONGEST_LINE = 300
_ADDRESS_SECRET = re.compile(r"(?<=://)[^/@\s]+@")
# A pattern in the output of an installer, the reason it stands for, and a hint.
_MEANINGS = (
    (
        r"nothing is built|included as a URL dependency|EALLOW|allow-(?:git|remote|file|directory)",
        "a package asks for another by address: only packages by name are installed",
        "ask its publisher, or use another package",
    ),
    (
        r"do not match the hashes|hash mismatch|EINTEGRITY",
        "a package is not the one that was pinned",
        "it was changed, or the pin is wrong: compare the checksums before anything else",
    ),
    (
        r"no (?:usable )?wheels|No matching distribution|No solution found",
        "there is no wheel that fits, or no such package",
        "see what there is: {command}. Only wheels are installed; a package that has none can be"  # noqa: ISC004
        " built from its source, by its own code and confined: `{build}`",
    ),
    (
        r"\bE404\b|\bETARGET\b|notarget",
        "the registry has no such package or version",
        "see what there is: {command}",
    ),
    (
        r"EUSAGE.*lock|in sync",
        "package.json and package-lock.json do not agree",
        "run `npm install` in the skill to renew the lock file",
    ),
    (
        r"ensurepip is not|No module named '?(?:venv|ensurepip|pip)",
        "this Python cannot make environments",
        "install uv, or: apt install python3-venv",
    ),
    (
        r"Connection|resolve|ENOTFOUND|ECONN|timed out|certificate|dns error|proxy",
        "the packages could not be fetched",
        "check the network, and your settings for the installer: {command}",
    ),
)


_WITHOUT_WHEEL = re.compile(
    r"No matching distribution found for ([A-Za-z0-9][\w.-]*)"
    r"|Wheels are required for `([A-Za-z0-9][\w.-]*)|([A-Za-z0-9][\w.-]*)\S* ha(?:s|ve) no"
)


_PYTHON = r"((?:[<>=!~]=?[\d.*]+, ?)*[<>=!~]=?[\d.*]+)"
# How uv and pip say which Python the versions of a package need; pip says it of some versions, too,
# if others were found.
_OTHER_PYTHON = re.compile(rf"does not satisfy Python{_PYTHON}")
_IGNORED = re.compile(rf"Requires-Python {_PYTHON}")
_NONE_FOUND = "(from versions: none)"


class PythonDiffersError(InstallError):
    """No version of a package is for this Python; `specifiers` are for what they are."""

    def __init__(
        self, skill: str, names: Sequence[str], specifiers: Sequence[str], output: str
    ) -> None:
        self.specifiers = tuple(specifiers)
        wanted = " or ".join(f"Python {each}" for each in self.specifiers)
        reason = f"it needs {wanted}, Skillpouch runs on {own_python().text}"
        hint = "install such a Python, and uv; both are then used for it"
        super().__init__(skill, names, reason, output=output, hint=hint)


def _other_pythons(text: str) -> list[str]:
    """Return the Pythons that an installer says versions of a package need, the newest first."""
    found = _OTHER_PYTHON.findall(text) or (_NONE_FOUND in text and _IGNORED.findall(text)) or ()
    return sorted({each.replace(" ", "") for each in found}, key=_numbers, reverse=True)


def _numbers(specifiers: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", specifiers.partition(",")[0])))


def install_error(skill: str, recipe: Recipe, ended: Ended, doing: str = "") -> InstallError:
    """Return the error for an installer that failed; `doing` is what it was about to do."""
    output = last_lines(f"{ended.stdout.text}\n{ended.stderr.text}")
    reason, hint = _ending(ended), "the same outside Skillpouch: {command}"
    if doing.startswith("building"):
        reason = f"{doing} failed: {reason}"
        hint = "it may need a compiler or a library of this machine, and it has no network"
        return InstallError(skill, recipe.names, reason, output=output, hint=hint)
    if others := _other_pythons(f"{ended.stdout.text}\n{ended.stderr.text}"):
        return PythonDiffersError(skill, recipe.names, others, output)
    for pattern, meaning, step in _MEANINGS:
        if re.search(pattern, output, re.IGNORECASE | re.DOTALL):
            reason, hint = meaning, step
            break
    words = {"command": f"`{recipe.try_yourself()}`", "build": _build_command(skill, output)}
    return InstallError(skill, recipe.names, reason, output=output, hint=hint.format(**words))


def _build_command(skill: str, output: str) -> str:
    """Return the command that lets the package be built for which an installer found no wheel."""
    found = _WITHOUT_WHEEL.search(output)
    name = split_package(found[1] or found[2] or found[3])[0] if found else ""
    return trust_command(skill, [Need(kind="build", value=name or "NAME")])


def _ending(ended: Ended) -> str:
    if ended.exit_code is not None:
        return f"the installer failed with exit code {ended.exit_code}"
    return f"the installer was ended by {ended.code or f'signal {ended.signal}'}"


def last_lines(text: str) -> str:
    """Return the last lines of an output, without escapes and without passwords in addresses."""
    lines = [line.rstrip()[:_LONGEST_LINE] for line in clean(text).splitlines() if line.strip()]
    return _ADDRESS_SECRET.sub("…@", "\n".join(lines[-_LAST_LINES:]))


OnProgress = Callable[[str], None]

_GIB = 1024 * 1024 * 1024
_TICK_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentBuild:
    """One environment to build in `store`, and for whom."""

    recipe: Recipe
    skill: str
    store: Path
    say: OnProgress
    timeout_seconds: float
    sandbox: Sandbox = "on"

    @property
    def what(self) -> str:
        return f"{', '.join(self.recipe.names)} for {self.skill}"


async def build(job: EnvironmentBuild) -> Environment:
    """Build an environment, or wait for the process that is building it.

    Raises:
        InstallError: it could not be built, or not in time; the next call tries again.
        SandboxUnavailableError: this machine cannot confine the installer.
    """
    started = time.monotonic()
    try:
        async with asyncio.timeout(job.timeout_seconds):
            return await _build_locked(job, started)
    except TimeoutError:
        raise InstallError(
            job.skill,
            job.recipe.names,
            f"it was not done after {job.timeout_seconds:g} s",
            hint="call again: downloaded packages are kept",
        ) from None


async def _build_locked(job: EnvironmentBuild, started: float) -> Environment:
    place = job.store / job.recipe.digest

    def waiting() -> None:
        job.say(f"waiting for another process that is installing {job.what}")

    async with hold(place, waiting):
        found = find_ready(place)
        if found is not None:
            return found
        # Leftovers are removed by name, and no name is used twice: a removal that was cancelled
        # here goes on during the next build, and a dying installer still writes to its old folder
        # only.
        await asyncio.to_thread(remove, leftovers(place))
        folder = place / secrets.token_hex(8)
        folder.mkdir(mode=0o700)
        try:
            await _with_progress(job, folder, started)
            return await _finish(job, place, folder, time.monotonic() - started)
        finally:
            if find_ready(place) is None:
                await asyncio.to_thread(remove, [folder])


async def _with_progress(job: EnvironmentBuild, folder: Path, started: float) -> None:
    job.say(f"installing {job.what}")
    running = asyncio.ensure_future(_install(job, folder))
    try:
        while not (await asyncio.wait({running}, timeout=_TICK_SECONDS))[0]:
            job.say(f"installing {job.what} … {time.monotonic() - started:.0f} s")
        running.result()
    finally:
        running.cancel()
        await asyncio.wait({running})


async def _install(job: EnvironmentBuild, folder: Path) -> None:
    downloads = downloads_folder(job.store)
    (folder / "tmp").mkdir()
    hint = "ask the publisher of the package, or use another"
    try:
        for step in job.recipe.steps(folder, downloads):
            if step.doing:
                job.say(f"{step.doing} for {job.skill}")
            ended = await run_step(job, step, folder, downloads)
            if ended.outcome != "ok" and not step.optional:
                raise install_error(job.skill, job.recipe, ended, step.doing)
    except RecipeError as error:
        raise InstallError(job.skill, job.recipe.names, str(error), hint=hint) from None
    objection = job.recipe.objection(folder)
    if objection:
        raise InstallError(job.skill, job.recipe.names, objection, hint=hint)


async def run_step(job: EnvironmentBuild, step: Step, folder: Path, downloads: Path) -> Ended:
    """Run one program of a recipe: it can write the environment and the downloads only.

    A step that is alone in a folder can write nothing else.
    """
    own = {"TMPDIR": str(folder / "tmp"), **dict(step.settings.variables), **dict(step.variables)}
    command = Command(
        argv=step.argv,
        env=base_environment() | own,
        cwd=step.alone_in or folder,
        # `build` enforces the time limit. Packages need larger files than any tool writes.
        limits=Limits(
            timeout_seconds=2 * job.timeout_seconds,
            memory_bytes=4 * _GIB,
            file_bytes=16 * _GIB,
            open_files=4096,
            processes=256,
        ),
    )
    confinement = Confinement(
        workspace=step.alone_in or folder,
        interpreters=step.interpreters,
        readable=step.settings.readable,
        writable=() if step.alone_in else (downloads,),
        # The user's folders and settings may be reached through the user's own links.
        followed=(folder, downloads, *step.settings.readable),
        network=step.network,
        sandbox=job.sandbox,
    )
    return await run_command(command, confinement)


async def _finish(job: EnvironmentBuild, place: Path, folder: Path, seconds: float) -> Environment:
    # Temporary files of the installer, and its saved output if that was long.
    await asyncio.to_thread(remove, [folder / "tmp", folder / ".skillpouch"])
    names = list(job.recipe.names)
    record = {"folder": folder.name, "requirements": names, **job.recipe.record()}
    found = environment_at(folder, record)
    if found is None:
        reason = "the installer reported success, but installed nothing"
        raise InstallError(job.skill, names, reason, hint="look at the installer's settings")
    # Without namespaces no mount is read-only, and Landlock does not refuse chmod(2) or utime(2): a
    # call could change the mode of a file that another skill uses. There, all files are copies.
    if probe().namespaces:
        await asyncio.to_thread(share_files, job.store, folder)
    write_ready(place, record)
    job.say(f"installed {job.what} in {seconds:.0f} s")
    return found
