"""Why a file below scripts/ is no tool: imported by another script, or a test."""

from collections.abc import Iterable, Mapping
from posixpath import normpath

from skillpouch.declarations.scripts_folder import ScriptFile


def reasons_to_drop(scripts: Iterable[ScriptFile]) -> dict[str, str]:
    """Return path → reason for each script that is shown to be no tool. Doubt keeps a script."""
    known = {script.path: script for script in scripts}
    importers = _importers(known)
    reasons: dict[str, str] = {}
    for path, script in known.items():
        importer = importers.get(path) or script.package
        if script.signature.is_test:
            reasons[path] = "a test, not a tool"
        elif importer and not script.signature.has_entry:
            reasons[path] = f"a module that {importer} imports, with nothing to run itself"
    return reasons


def _importers(known: Mapping[str, ScriptFile]) -> dict[str, str]:
    """Return path → the first other script that imports it."""
    found: dict[str, str] = {}
    for importer, script in known.items():
        folder = importer.rpartition("/")[0] or "."
        for module in script.signature.imports:
            for target in _targets(folder, module, script.language):
                if target in known and target != importer:
                    found.setdefault(target, importer)
    return found


def _targets(folder: str, module: str, language: str) -> list[str]:
    if language == "python":
        return _python_targets(folder, module)
    if not module.startswith("."):
        return []
    plain = normpath(f"{folder}/{module}")
    return [plain, *(f"{plain}{suffix}" for suffix in (".js", ".mjs", ".cjs", ".ts", ".sh"))]


def _python_targets(folder: str, module: str) -> list[str]:
    if module.startswith("."):
        dots = len(module) - len(module.lstrip("."))
        base = normpath(f"{folder}/{'../' * (dots - 1)}")
        return _module_files(base, module.lstrip("."))
    # The script's own folder is importable, and scripts/ is.
    return _module_files(folder, module) + _module_files("scripts", module)


def _module_files(base: str, module: str) -> list[str]:
    parts = [part for part in module.split(".") if part]
    # `import a.b` names a/b.py; `from a import b` may name a.py or a/b.py.
    return [f"{base}/{'/'.join(parts[:end])}.py" for end in range(1, len(parts) + 1)]
