"""Say which version number comes next after these changes."""

import re


def handler(args):
    current = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)", args["current"])
    if not current:
        raise ValueError(f"{args['current']!r} is not a version such as 1.4.2")

    major, minor, patch = map(int, current.groups())
    changes = args["changes"]
    if any(re.match(r"[a-z]+(\([^)]+\))?!:", change) for change in changes):
        step, version = "major", f"{major + 1}.0.0"
    elif any(change.startswith("feat") for change in changes):
        step, version = "minor", f"{major}.{minor + 1}.0"
    else:
        step, version = "patch", f"{major}.{minor}.{patch + 1}"
    if "pre_release" in args:
        version += f"-{args['pre_release']}.1"
    return {"version": version, "step": step}
