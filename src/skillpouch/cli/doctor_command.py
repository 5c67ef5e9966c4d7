"""`skillpouch doctor`: what this machine can protect, run and hold."""

import platform
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

import skillpouch
from skillpouch.cli.options import common_options
from skillpouch.cli.output import print_json, print_table, size_text
from skillpouch.errors import SkillpouchError
from skillpouch.limits import Limits

if TYPE_CHECKING:
    from skillpouch.provision.diagnosis import FolderRoom, MemoryRoom

_LITTLE = 256 * 1024 * 1024  # bytes: less than what installing ordinary packages takes


@click.command("doctor")
@common_options
def command(roots: tuple[Path, ...], as_json: bool) -> None:  # noqa: ARG001 - every command has them
    """Show which protections work on this machine, interpreters, memory and folders."""
    report = _report()
    if as_json:
        print_json(report)
        return
    rows = [
        (layer, by, report["proofs"].get(layer, "" if by != "none" else "NOT PROTECTED"))
        for layer, by in report["protections"].items()
    ]
    print_table(("protection", "by", "tried just now"), rows)
    profiles = [(name, why or "can be held") for name, why in report["profiles"].items()]
    print_table(("profile", "on this machine"), profiles)
    for reason in report["missing"]:
        click.echo(f"missing: {reason}", err=True)
    interpreters = report["interpreters"].items()
    print_table(
        ("runs", "program", "version"),
        [(name, found["path"], found["version"]) for name, found in interpreters],
    )
    print_table(("room", "what Skillpouch uses", "what there is"), _rooms(report))
    for warning in report["warnings"]:
        click.echo(f"warning: {warning}", err=True)
    click.echo(f"skillpouch {report['skillpouch']}, Python {report['python']}, {report['system']}")
    if not report["yaml_by_libyaml"]:
        click.echo("PyYAML lacks libyaml: reading skills is ten times slower", err=True)


def _report() -> dict[str, Any]:
    import yaml

    from skillpouch.provision.diagnosis import diagnose, folder_rooms, memory_room

    found, memory, folders = diagnose(), memory_room(_limits()), folder_rooms()
    return {
        "skillpouch": skillpouch.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "protections": dict(found.protections),
        "proofs": dict(found.proofs),
        "missing": list(found.missing),
        "profiles": dict(found.profiles),
        "interpreters": {
            name: {"path": path, "version": version}
            for name, (path, version) in found.interpreters.items()
        },
        "memory": asdict(memory),
        "folders": [asdict(folder) for folder in folders],
        "warnings": [*_memory_warnings(memory), *_folder_warnings(folders)],
        "yaml_by_libyaml": bool(yaml.__with_libyaml__),
    }


def _limits() -> Limits:
    """Return the limits of any call, as the user's policy has them."""
    from skillpouch.policy.loading import load_policy

    try:
        return load_policy().limits_for("any.tool", "any", Limits())
    except SkillpouchError:
        return Limits()  # every other command says what is wrong with the policy


def _rooms(report: dict[str, Any]) -> list[tuple[str, str, str]]:
    memory = report["memory"]
    most = memory["call_bytes"]
    process = "no limit" if most is None else f"{size_text(most)} for a process of a call"
    temporary = f"{size_text(memory['temporary_bytes'])} each for its /tmp and /dev/shm"
    rows = [("memory", f"{process}, {temporary}", _of(memory["available_bytes"], memory))]
    for folder in report["folders"]:
        used = f"{'' if folder['whole'] else 'more than '}{size_text(folder['used_bytes'])}"
        free = f"{size_text(folder['free_bytes'])} free of {size_text(folder['total_bytes'])}"
        rows.append((folder["what"], f"{used} in {folder['path']}", free))
    return rows


def _of(available: int | None, memory: dict[str, Any]) -> str:
    if available is None or memory["machine_bytes"] is None:
        return "unknown"
    return f"{size_text(available)} free of {size_text(memory['machine_bytes'])}"


def _memory_warnings(memory: "MemoryRoom") -> Iterator[str]:
    most, available = memory.call_bytes, memory.available_bytes
    if most is None:
        yield "no limit of memory: one call can take all that there is"
    elif available is not None and most > available:
        yield (
            f"a process of a call may take {size_text(most)} of memory, and only "
            f"{size_text(available)} are free"
        )


def _folder_warnings(folders: list["FolderRoom"]) -> Iterator[str]:
    for folder in folders:
        if folder.what == "left behind":
            yield (
                f"{folder.path} holds {size_text(folder.used_bytes)} of a process that is gone: "
                f"remove it with `rm -r {quote(folder.path)}`"
            )
        elif folder.free_bytes < _LITTLE:
            yield f"only {size_text(folder.free_bytes)} are free in {folder.path} ({folder.what})"
