"""The user's own settings for installers: the variables, files and folders that they see."""

import re
from dataclasses import dataclass
from pathlib import Path

from skillpouch.environment import (
    config_directories,
    home_directory,
    variables_beginning,
    variables_named,
)
from skillpouch.untrusted_files import DECLARATION_BYTES, CannotReadError, read_whole

# Proxies and certificates: how to reach a registry at all.
_REACH = (
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
    *("NODE_EXTRA_CA_CERTS", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS"),
)
# Settings for where to write, what to build or which Python: Skillpouch decides these itself.
_OURS = re.compile(
    r"""PIP_(?:TARGET|PREFIX|ROOT|USER|PYTHON|LOG|SRC|CACHE_DIR|NO_CACHE_DIR|NO_BINARY|ONLY_BINARY
        |REQUIREMENT|EDITABLE|REPORT|DRY_RUN|NO_DEPS|BREAK_SYSTEM_PACKAGES|REQUIRE_VIRTUALENV)\Z
    |UV_(?:CACHE_DIR|NO_CACHE|PYTHON\w*|PROJECT\w*|SYSTEM_PYTHON|BREAK_SYSTEM_PACKAGES|LINK_MODE
        |NO_BINARY\w*|NO_BUILD\w*|COMPILE_BYTECODE|PUBLISH_\w*|TOOL_\w*|VENV_\w*|WORKING_DIR\w*
        |ENV_FILE|NO_MANAGED_PYTHON|MANAGED_PYTHON)\Z
    |NPM_CONFIG_(?:PREFIX|CACHE|GLOBAL|LOCATION|LOCAL_PREFIX|IGNORE_SCRIPTS|SCRIPT_SHELL|GIT
        |NODE_OPTIONS|OMIT|INCLUDE|ONLY|PRODUCTION|DRY_RUN|PACKAGE_LOCK\w*|LOGS_DIR|WORKSPACES?)\Z
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The user's settings that one installer gets: variables to set, paths to read."""

    variables: tuple[tuple[str, str], ...] = ()
    readable: tuple[Path, ...] = ()


def pip_settings(own_prefix: Path) -> Settings:
    """Return the settings for pip; `own_prefix` is the environment Skillpouch itself is in."""
    variables = _variables("PIP_")
    files = [folder / "pip" / "pip.conf" for folder in config_directories()]
    files += [Path("/etc/pip.conf"), *_at_home(".pip/pip.conf")]
    site = own_prefix / "pip.conf"
    # pip would look for this file in the environment that it installs into.
    if site.exists():
        variables.setdefault("PIP_CONFIG_FILE", str(site))
    return _settings(variables, [*files, *_named(variables, "PIP_CONFIG_FILE")])


def uv_settings() -> Settings:
    """Return the settings for uv."""
    variables = _variables("UV_")
    files = [folder / "uv" / "uv.toml" for folder in config_directories()]
    files += [Path("/etc/uv/uv.toml"), *_named(variables, "UV_CONFIG_FILE")]
    return _settings(variables, files)


def npm_settings(node_prefix: Path) -> Settings:
    """Return the settings for npm; `node_prefix` is where Node is installed."""
    variables = _variables("NPM_CONFIG_")
    files = [*_at_home(".npmrc"), node_prefix / "etc" / "npmrc", Path("/etc/npmrc")]
    files += _named(variables, "NPM_CONFIG_USERCONFIG", "NPM_CONFIG_GLOBALCONFIG")
    return _settings(variables, files)


def _variables(prefix: str) -> dict[str, str]:
    found = variables_beginning(prefix)
    kept = {name: value for name, value in found.items() if not _OURS.match(name.upper())}
    home = home_directory()
    return variables_named(*_REACH) | kept | ({"HOME": str(home)} if home else {})


def _at_home(name: str) -> list[Path]:
    home = home_directory()
    return [home / name] if home else []


def _named(variables: dict[str, str], *names: str) -> list[Path]:
    values = [value for name, value in variables.items() if name.upper() in names]
    return [Path(value) for value in values if Path(value).is_absolute()]


def _settings(variables: dict[str, str], files: list[Path]) -> Settings:
    there = [file for file in files if file.is_file()]
    texts = [value for name, value in variables.items() if name not in ("HOME", "XDG_CONFIG_HOME")]
    texts += [_text(file) for file in there]
    places = {place for text in texts for place in local_places(text)}
    return Settings(
        variables=tuple(sorted(variables.items())), readable=tuple(sorted({*there, *places}))
    )


def _text(file: Path) -> str:
    try:
        return read_whole(str(file), DECLARATION_BYTES).data.decode(errors="replace")
    except CannotReadError:
        return ""


def local_places(text: str) -> list[Path]:
    """Return the paths on this machine that a setting names: certificates, folders of wheels.

    A home folder, or a folder that contains one, is never returned.
    """
    found: list[str] = []
    for word in re.split(r"[\s\"',;=\[\]]+", text):
        if word.startswith("/"):
            found += word.split(":")
        elif word.startswith("file:///"):
            place = word.removeprefix("file://").rstrip("/")
            # A local index is a folder named `simple`; it links to files next to that folder.
            found.append(place.removesuffix("/simple"))
    return [path for name in found if _may_be_shown(path := Path(name))]


def _may_be_shown(path: Path) -> bool:
    home = home_directory()
    real = path.resolve()
    around = {Path("/"), *((home, home.resolve(), *home.resolve().parents) if home else ())}
    return path.is_absolute() and path.exists() and not around.intersection({path, real})
