"""Which files of /etc and /var a sandbox shows: what packages say, and nothing else."""

import hashlib
import itertools
import os
import socket
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillpouch.execution.package_files import (
    SHOWN_AT,
    copy_configuration,
    links_to,
    originals,
    packaged_configuration,
)


class Root:
    """A machine in a folder, with packages as dpkg lists them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.copies = folder.with_name("copies")
        self.copies.mkdir()
        for name in ("usr", "etc", "var/lib/dpkg/info", "var/lib/ucf"):
            (folder / name).mkdir(parents=True)
        (folder / "var/lib/dpkg/status").touch()

    def write(self, path: str, text: str, mode: int = 0o644) -> str:
        file = self.folder / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)
        return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()

    def link(self, path: str, target: str) -> None:
        file = self.folder / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.symlink_to(target)

    def package(self, name: str, *paths: str, conffiles: dict[str, str] | None = None) -> None:
        """List a package; `conffiles` are what it brought, by path."""
        info = self.folder / "var/lib/dpkg"
        lines = ["/.", "/etc", "/usr", *paths, *(conffiles or {}), ""]
        (info / "info" / f"{name}.list").write_text("\n".join(lines))
        with (info / "status").open("a") as status:
            status.write(f"Package: {name}\nStatus: install ok installed\nConffiles:\n")
            for path, text in (conffiles or {}).items():
                checksum = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
                status.write(f" {path} {checksum}\n")
            status.write("Description: x\n\n")

    def generated(self, path: str, checksum: str) -> None:
        with (self.folder / "var/lib/ucf/hashfile").open("a") as file:
            file.write(f"{checksum}  {path}\n")

    def shown(self) -> dict[str, str]:
        """Copy, and return what is in the copies: texts of files, targets of links."""
        changed = copy_configuration(str(self.copies), str(self.folder))
        assert changed is not None
        self.changed = changed
        found = {}
        for path in self.copies.rglob("*"):
            if path.is_symlink():
                found[f"/{path.relative_to(self.copies)}"] = f"-> {path.readlink()}"
            elif path.is_file():
                found[f"/{path.relative_to(self.copies)}"] = path.read_text()
        return found


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path / "root")


@pytest.mark.promise("fs-8")
def test_what_a_package_brought_is_shown_as_long_as_it_is_unchanged(root: Root) -> None:
    root.write("/etc/magick/policy.xml", "<policy/>")
    root.write("/etc/magick/colors.xml", "<password>hunter2</password>")
    root.package("magick", conffiles={"/etc/magick/policy.xml": "<policy/>"})
    root.package("colors", conffiles={"/etc/magick/colors.xml": "<colors/>"})

    assert root.shown() == {"/etc/magick/policy.xml": "<policy/>"}
    assert root.changed == ["/etc/magick/colors.xml"]


@pytest.mark.promise("fs-8")
def test_a_file_that_no_package_brought_is_not_shown(root: Root) -> None:
    root.write("/etc/shadow", "root:hash")
    root.write("/etc/npmrc", "token")
    root.write("/etc/java/security", "s")
    root.write("/etc/java/own.properties", "password=hunter2")
    root.write("/etc/environment", "https_proxy=http://user:password@proxy")
    root.link("/usr/lib/environment.d/99-environment.conf", "../../../etc/environment")
    root.package(
        "java",
        "/usr/lib/environment.d/99-environment.conf",
        "/var/lib/java",
        conffiles={"/etc/java/security": "s"},
    )

    assert root.shown() == {"/etc/java/security": "s"}


@pytest.mark.promise("fs-8")
@pytest.mark.parametrize("mode", [0o640, 0o600, 0o440, 0o000])
def test_what_not_everybody_may_read_is_not_shown(root: Root, mode: int) -> None:
    root.write("/etc/sudoers", "ALL", mode=mode)
    root.package("sudo", conffiles={"/etc/sudoers": "ALL"})

    assert root.shown() == {}


@pytest.mark.promise("fs-8")
def test_what_is_in_a_folder_that_not_everybody_may_enter_is_not_shown(root: Root) -> None:
    root.write("/etc/ssl/private/snakeoil.key", "key")
    (root.folder / "etc/ssl/private").chmod(0o700)
    root.link("/usr/lib/ssl/private", "/etc/ssl/private")
    root.package("ssl", "/usr/lib/ssl/private", conffiles={"/etc/ssl/private/snakeoil.key": "key"})

    assert root.shown() == {}


@pytest.mark.promise("fs-8")
def test_a_link_in_the_place_of_a_file_or_folder_is_not_followed(root: Root) -> None:
    root.write("/secret/settings", "s")
    root.write("/secret/more/x", "s")
    root.link("/etc/settings", "../secret/settings")
    root.link("/etc/more", "../secret/more")
    root.package("one", conffiles={"/etc/settings": "s", "/etc/more/x": "s"})

    assert root.shown() == {"/etc/settings": "-> /secret/settings"}


def test_links_of_packages_in_etc_lead_where_they_led(root: Root) -> None:
    root.write("/usr/share/words", "w")
    root.link("/etc/words/default", "../../usr/share/words")
    root.link("/etc/words/of-the-owner", "/home/ada/words")
    root.package("words", "/etc/words", "/etc/words/default")

    assert root.shown() == {"/etc/words/default": "-> /usr/share/words"}


@pytest.mark.promise("fs-8")
def test_what_a_package_generated_is_shown_where_it_links_to_it(root: Root) -> None:
    for path in ("/etc/office/registry/main.xcd", "/etc/mail/db.php", "/etc/office/changed.xcd"):
        root.generated(path, root.write(path, "generated"))
    root.write("/etc/office/changed.xcd", "changed")
    root.write("/etc/office/registry/mine.xcd", "hunter2")
    root.link("/usr/lib/office/share/registry", "../../../../etc/office/registry")
    root.package("office", "/usr/lib/office/share/registry", "/etc/office", "/etc/office/registry")
    root.package("mail", "/etc/mail")

    assert root.shown() == {"/etc/office/registry/main.xcd": "generated"}


def test_data_that_a_package_links_to_is_shown_with_its_folder(root: Root) -> None:
    root.write("/var/lib/tex/ls-R", "list")
    root.write("/var/lib/tex/web2c/tex.fmt", "format")
    root.link("/usr/share/tex/ls-R", "/var/lib/tex/ls-R")
    root.write("/var/lib/tex-service/db", "rows")
    root.package("tex", "/usr/share/tex/ls-R", "/var/lib/tex")
    root.package("service", "/var/lib/tex-service")

    assert root.shown() == {"/var/lib/tex/ls-R": "list", "/var/lib/tex/web2c/tex.fmt": "format"}


@pytest.mark.promise("fs-8")
def test_of_a_folder_with_something_private_only_what_is_linked_is_shown(root: Root) -> None:
    root.write("/var/lib/tex/ls-R", "list")
    root.write("/var/lib/tex/secret", "s", mode=0o600)
    root.link("/usr/share/tex/ls-R", "/var/lib/tex/ls-R")
    root.package("tex", "/usr/share/tex/ls-R", "/var/lib/tex")

    assert root.shown() == {"/var/lib/tex/ls-R": "list"}


@pytest.mark.promise("fs-8")
def test_a_folder_with_a_socket_is_not_shown(root: Root) -> None:
    root.write("/var/lib/tex/ls-R", "list")
    root.link("/usr/share/tex", "/var/lib/tex")
    root.package("tex", "/usr/share/tex", "/var/lib/tex")
    with socket.socket(socket.AF_UNIX) as listener:
        here = Path.cwd()
        os.chdir(root.folder / "var/lib/tex")  # the name of a socket is short
        listener.bind("socket")
        os.chdir(here)

        assert root.shown() == {}


@pytest.mark.promise("fs-8")
def test_a_link_that_nobody_listed_opens_nothing(root: Root) -> None:
    root.write("/var/lib/tex/ls-R", "list")
    root.link("/usr/local/share/tex", "/var/lib/tex")
    root.package("tex", "/var/lib/tex")

    assert root.shown() == {}


def test_a_machine_without_lists_of_packages_shows_nothing_more(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()

    assert copy_configuration(str(tmp_path / "copies"), str(tmp_path)) is None
    assert not (tmp_path / "copies").exists()


NAMES = st.sampled_from(
    ["/".join(parts) for depth in (1, 2, 3) for parts in itertools.product("abc", repeat=depth)]
)


@settings(deadline=None)
@given(copied=st.sets(NAMES, max_size=6), taken=st.sets(NAMES, max_size=4))
def test_links_show_every_copy_once_and_cover_nothing_else(
    copied: set[str], taken: set[str]
) -> None:
    files = {name for name in copied if not any(o.startswith(f"{name}/") for o in copied)}
    shown = [f"/etc/{name}" for name in taken]
    with TemporaryDirectory() as folder:
        for name in files:
            file = Path(folder) / "etc" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()

        links = links_to(folder, shown)

    assert links == {path: SHOWN_AT + path for path in links}
    for path in links:
        assert not any(f"{path}/".startswith(f"{each}/") for each in shown)
        assert not any(f"{each}/".startswith(f"{path}/") for each in shown)
    for path in (f"/etc/{name}" for name in files):
        is_taken = any(f"{path}/".startswith(f"{each}/") for each in shown)
        is_above = any(each.startswith(f"{path}/") for each in shown)
        seen = [link for link in links if f"{path}/".startswith(f"{link}/")]
        assert len(seen) == (0 if is_taken or is_above else 1)


def test_without_mounts_only_folders_that_were_copied_whole_can_be_listed() -> None:
    """As on this machine: what the copies of its packages hold, and no folder with more in it."""
    folder = packaged_configuration()
    if not folder:
        pytest.skip("this machine has no lists of packages that dpkg made")

    for path, right in originals(folder):
        assert Path(folder + path).exists() or Path(folder + path).is_symlink()
        if right == "list":
            copied = {each.name for each in Path(folder + path).iterdir()}
            assert {each.name for each in Path(path).iterdir()} == copied


def test_the_copies_are_made_once_for_each_state_of_the_packages() -> None:
    folder = packaged_configuration()

    before = folder and Path(folder).stat().st_ctime_ns
    assert packaged_configuration() == folder
    assert (folder and Path(folder).stat().st_ctime_ns) == before
