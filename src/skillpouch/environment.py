"""Reads environment variables; no other file does."""

import os
from functools import lru_cache
from pathlib import Path

SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"  # where programs of the machine are
OWN_PROGRAMS = "/run/skillpouch/bin"  # in a sandbox: `python`, where the machine has only `python3`
POLICY_FILE = "policy.toml"  # in the user's own settings
PROJECT_FILE = "skillpouch.toml"  # in the folder of a project
_USER_SKILLS = (".claude/skills", ".agents/skills")
_SECRET_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL")
_PROJECT_SKILLS = ("skills", ".opencode/skills", ".claude/skills", ".agents/skills")


def cache_directory() -> Path | None:
    """Return the folder for what can be made again (`XDG_CACHE_HOME`, else `~/.cache`), if any."""
    return _cache_directory(os.environ.get("XDG_CACHE_HOME", ""), os.environ.get("HOME", ""))


@lru_cache(maxsize=8)
def _cache_directory(base: str, _home: str) -> Path | None:
    # Every call asks for it, so it is cached; the key is every variable that it depends on.
    if Path(base).is_absolute():
        return Path(base) / "skillpouch"
    home = home_directory()
    return home / ".cache" / "skillpouch" if home else None


def config_directory() -> Path | None:
    """Return the folder of the user's settings (`XDG_CONFIG_HOME`, else `~/.config`), if any."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    if Path(base).is_absolute():
        return Path(base) / "skillpouch"
    home = home_directory()
    return home / ".config" / "skillpouch" if home else None


def state_directory() -> Path | None:
    """Return the folder for what must not be lost (`XDG_STATE_HOME`, else `~/.local/state`)."""
    base = os.environ.get("XDG_STATE_HOME", "")
    if Path(base).is_absolute():
        return Path(base) / "skillpouch"
    home = home_directory()
    return home / ".local" / "state" / "skillpouch" if home else None


def data_directory() -> Path | None:
    """Return the folder of the user's files (`XDG_DATA_HOME`, else `~/.local/share`), if any."""
    base = os.environ.get("XDG_DATA_HOME", "")
    if Path(base).is_absolute():
        return Path(base) / "skillpouch"
    home = home_directory()
    return home / ".local" / "share" / "skillpouch" if home else None


def another_place(variable: str) -> str:
    """Return the hint for a folder of Skillpouch's own that cannot be written."""
    return f"make it writable for you, or set {variable} to a folder that is"


def default_roots(project: Path | None = None) -> list[Path]:
    """Return the folders that are searched when none are named, later ones overriding earlier."""
    named = os.environ.get("SKILLPOUCH_PATH", "")
    if named:
        return [Path(part).expanduser() for part in named.split(os.pathsep) if part]
    here = project or Path.cwd()
    home = home_directory()
    user = [home / part for part in _USER_SKILLS] if home else []
    return [*user, *(here / part for part in _PROJECT_SKILLS)]


def is_set(name: str) -> bool:
    """Tell whether an environment variable has a value."""
    return bool(os.environ.get(name))


def variable_names() -> list[str]:
    """Return the names of all environment variables."""
    return list(os.environ)


def variable(name: str) -> str | None:
    """Return the value of an environment variable; secrets come from here by default."""
    return os.environ.get(name)


def home_directory() -> Path | None:
    """Return the user's home, if there is one."""
    try:
        return Path.home()
    except RuntimeError:  # HOME is not set, and the user has no entry in the password database
        return None


def search_path() -> str:
    """Return where executables are looked for."""
    return os.environ.get("PATH", os.defpath)


def config_directories() -> list[Path]:
    """Return where programs keep their settings: the user's folder, then those of the system."""
    own = os.environ.get("XDG_CONFIG_HOME", "")
    home = home_directory()
    user = [Path(own)] if own else [home / ".config"] if home else []
    shared = os.environ.get("XDG_CONFIG_DIRS", "") or "/etc/xdg"
    found = [*user, *map(Path, shared.split(os.pathsep))]
    return [path for path in found if path.is_absolute()]


def variables_beginning(*prefixes: str) -> dict[str, str]:
    """Return the variables whose names begin with a prefix in capitals, whatever their own case."""
    return {name: os.environ[name] for name in os.environ if name.upper().startswith(prefixes)}


def secret_variables() -> dict[str, str]:
    """Return the variables whose names suggest a secret: keys, tokens, passwords."""
    return {name: os.environ[name] for name in os.environ if _is_secret(name)}


def _is_secret(name: str) -> bool:
    return any(word in name.upper() for word in _SECRET_WORDS)


def variables_named(*names: str) -> dict[str, str]:
    """Return the variables of these names that are set."""
    return {name: os.environ[name] for name in names if name in os.environ}


def base_environment() -> dict[str, str]:
    """Return the variables that every tool has; only `TZ` is copied from this process.

    HOME is the call's own temporary folder: a tool does not see the user's.
    """
    found = {"PATH": f"{SYSTEM_PATH}:{OWN_PROGRAMS}", "HOME": "/tmp", "LANG": "C.UTF-8"}  # noqa: S108
    found |= {"TERM": "dumb", "NO_COLOR": "1"}
    zone = os.environ.get("TZ")
    return found | {"TZ": zone} if zone else found


def environments_directory() -> Path | None:
    """Return where environments are kept, if anywhere. Tools must never be able to write it."""
    cache = cache_directory()
    return cache / "environments" if cache else None


def system_directory() -> Path | None:
    """Return where copies of the machine's configuration are kept. Tools must never write it."""
    cache = cache_directory()
    return cache / "system" if cache else None


def downloads_directory() -> Path | None:
    """Return where installers keep what they fetched. Tools must never be able to write it."""
    cache = cache_directory()
    return cache / "downloads" if cache else None


def programs_directory() -> Path | None:
    """Return where programs are kept, if anywhere. Tools must never be able to write it."""
    cache = cache_directory()
    return cache / "programs" if cache else None
