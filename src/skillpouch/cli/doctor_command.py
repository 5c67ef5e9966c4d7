"""`skillpouch doctor`: tries what this machine can protect, and which scripts it can run."""

import platform
from pathlib import Path
from typing import Any

import click

import skillpouch
from skillpouch.cli.options import common_options
from skillpouch.cli.output import print_json, print_table


@click.command("doctor")
@common_options
def command(roots: tuple[Path, ...], as_json: bool) -> None:  # noqa: ARG001 - every command has them
    """Show which protections work on this machine, interpreters and versions."""
    report = _report()
    if as_json:
        print_json(report)
        return
    rows = [
        (layer, by, report["proofs"].get(layer, "" if by != "none" else "NOT PROTECTED"))
        for layer, by in report["protections"].items()
    ]
    print_table(("protection", "by", "tried just now"), rows)
    for reason in report["missing"]:
        click.echo(f"missing: {reason}", err=True)
    interpreters = report["interpreters"].items()
    print_table(
        ("runs", "program", "version"),
        [(name, found["path"], found["version"]) for name, found in interpreters],
    )
    click.echo(f"skillpouch {report['skillpouch']}, Python {report['python']}, {report['system']}")
    if not report["yaml_by_libyaml"]:
        click.echo("PyYAML lacks libyaml: reading skills is ten times slower", err=True)


def _report() -> dict[str, Any]:
    import yaml

    from skillpouch.provision.diagnosis import diagnose

    found = diagnose()
    return {
        "skillpouch": skillpouch.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "protections": dict(found.protections),
        "proofs": dict(found.proofs),
        "missing": list(found.missing),
        "interpreters": {
            name: {"path": path, "version": version}
            for name, (path, version) in found.interpreters.items()
        },
        "yaml_by_libyaml": bool(yaml.__with_libyaml__),
    }
