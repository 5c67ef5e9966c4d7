from pathlib import Path

import pytest

from skillpouch.declarations.packages.requirements import logical_lines
from skillpouch.provision.packages.building import last_lines
from skillpouch.provision.packages.configuration import (
    local_places,
    npm_settings,
    pip_settings,
    uv_settings,
)

pytestmark = pytest.mark.slow


def test_each_installer_sees_its_own_variables_only(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "PIP_INDEX_URL": "a",
        "PIP_TARGET": "/x",
        "PIP_NO_BINARY": ":all:",
        "UV_DEFAULT_INDEX": "b",
        "UV_PUBLISH_TOKEN": "secret",
        "UV_CACHE_DIR": "/x",
        "npm_config_registry": "c",
        "NPM_CONFIG_PREFIX": "/x",
        "npm_config_ignore_scripts": "false",
        "HTTPS_PROXY": "d",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "NPM_TOKEN": "secret",
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)

    seen = [pip_settings(Path("/nowhere")), uv_settings(), npm_settings(Path("/nowhere"))]

    own = [{name for name, _ in each.variables} & set(given) for each in seen]
    assert own == [
        {"PIP_INDEX_URL", "HTTPS_PROXY"},
        {"UV_DEFAULT_INDEX", "HTTPS_PROXY"},
        {"npm_config_registry", "HTTPS_PROXY"},
    ]


def test_what_settings_name_on_this_machine_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("wheels", "index/simple", "home/.config/pip", "more"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "ca.pem").touch()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME")
    config = tmp_path / "home/.config/pip/pip.conf"
    config.write_text(
        f"[global]\nfind-links = {tmp_path}/wheels\n  {tmp_path}/absent\n"
        f"cache-dir={tmp_path}/home\nindex-url = https://user@example.org/simple{tmp_path}/more\n"
    )
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", f"file://{tmp_path}/index/simple/")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))

    shown = pip_settings(Path("/nowhere")).readable

    ours = [path for path in shown if path.is_relative_to(tmp_path)]
    assert ours == sorted([config, *(tmp_path / name for name in ("wheels", "index", "ca.pem"))])


@pytest.mark.parametrize("text", ["/", "//", "file:///", "/:/", "\0", "file://host/x", "~/x"])
def test_no_setting_shows_everything(text: str) -> None:
    assert local_places(text) == []


def test_the_site_file_of_our_own_environment_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIP_CONFIG_FILE", raising=False)
    (tmp_path / "pip.conf").touch()

    settings = pip_settings(tmp_path)

    assert dict(settings.variables)["PIP_CONFIG_FILE"] == str(tmp_path / "pip.conf")
    assert tmp_path / "pip.conf" in settings.readable


def test_the_last_lines_hold_no_secret_and_no_escape() -> None:
    text = "\n".join(map(str, range(50))) + "\n\x1b[31mhttps://user:pass@host/x\x1b[0m\n\n"

    lines = last_lines(text).splitlines()

    assert lines == [*map(str, range(39, 50)), "https://…@host/x"]


def test_lines_are_joined_and_numbered_as_pip_does() -> None:
    text = "a \\\n  b # c\n\n# d \\\ne#f\n  # g\nh \\\n# i\nj\\"

    assert logical_lines(text) == [(1, "a   b"), (5, "e#f"), (7, "h"), (9, "j")]
