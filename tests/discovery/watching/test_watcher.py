"""The watcher itself: who is told where, both ways of noticing, and what it leaves behind."""

import asyncio
import logging
import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from skillpouch import SkillManager
from skillpouch.discovery.digest import digest_of
from skillpouch.discovery.watching.listening import ChangedNames, Changes
from skillpouch.discovery.watching.watcher import AlreadyWatchedError
from skillpouch.errors import MissingExtraError
from tests.discovery.watching import skills

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]  # longer than what is waited for
SECONDS = 60.0
DEMO = ChangedNames(skills=("demo",), tools=("demo.say",))
WAYS = pytest.mark.parametrize("polling", [True, False], ids=["polling", "events"])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    skills.write(tmp_path / "skills" / "demo")
    return tmp_path / "skills"


def manager_of(root: Path) -> SkillManager:
    return SkillManager(root, workspace=root.parent / "work", journal=False)


def edit(root: Path, version: int = 2) -> None:
    (root / "demo/scripts/say.py").write_text(skills.script(version))


@WAYS
def test_an_edit_is_noticed_by_itself_and_told_on_the_thread_of_the_watcher(
    root: Path, polling: bool
) -> None:
    heard: queue.Queue[tuple[Changes, str]] = queue.Queue()
    manager = manager_of(root)

    with manager.watch(
        lambda changes: heard.put((changes, threading.current_thread().name)), polling=polling
    ):
        edit(root)
        told = heard.get(timeout=SECONDS)

        assert manager.call("demo.say").structured == [2, 2]
    assert told == (Changes(changed=DEMO), "skillpouch-watch")


@WAYS
async def test_a_coroutine_function_is_told_on_the_loop_that_watches(
    root: Path, polling: bool
) -> None:
    heard: asyncio.Queue[tuple[Changes, threading.Thread]] = asyncio.Queue()

    async def listen(changes: Changes) -> None:
        await heard.put((changes, threading.current_thread()))

    async with manager_of(root).watch(listen, polling=polling):
        edit(root)
        told = await asyncio.wait_for(heard.get(), SECONDS)

    assert told == (Changes(changed=DEMO), threading.current_thread())


@WAYS
async def test_batches_can_be_waited_for_and_end_with_the_watcher(
    root: Path, polling: bool
) -> None:
    watcher = manager_of(root).watch(polling=polling)
    heard: list[Changes] = []
    ready = asyncio.Event()

    async def collect() -> None:
        batches = aiter(watcher)
        waiting = asyncio.ensure_future(anext(batches))
        await asyncio.sleep(0)
        ready.set()
        heard.append(await waiting)
        heard.extend([changes async for changes in batches])

    async with asyncio.timeout(SECONDS):
        async with watcher:
            collecting = asyncio.ensure_future(collect())
            await ready.wait()
            edit(root)
            while not heard:
                await asyncio.sleep(0.01)
        await collecting

    assert heard == [Changes(changed=DEMO)]


@WAYS
def test_a_root_that_is_not_there_yet_is_noticed_when_it_is(tmp_path: Path, polling: bool) -> None:
    (tmp_path / "work").mkdir()
    heard: queue.Queue[Changes] = queue.Queue()

    with manager_of(tmp_path / "skills").watch(heard.put, polling=polling):
        _elsewhere(tmp_path).rename(tmp_path / "skills")
        told = heard.get(timeout=SECONDS)

    assert told == Changes(added=DEMO)


def _elsewhere(tmp_path: Path) -> Path:
    return skills.write(tmp_path / "elsewhere/demo").parent


@WAYS
def test_a_root_that_becomes_another_folder_is_noticed(root: Path, polling: bool) -> None:
    link = root.parent / "current"
    link.symlink_to(root.name)
    skills.write(root.parent / "next" / "demo", 2)
    (root.parent / "swap").symlink_to("next")
    heard: queue.Queue[Changes] = queue.Queue()

    with manager_of(link).watch(heard.put, polling=polling):
        (root.parent / "swap").replace(link)
        assert heard.get(timeout=SECONDS) == Changes(changed=DEMO)
        (root.parent / "next/demo/scripts/say.py").write_text(skills.script(3))
        assert heard.get(timeout=SECONDS) == Changes(changed=DEMO)


def test_a_listener_that_fails_is_logged_and_the_others_are_told(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[Changes] = []

    def fail(changes: Changes) -> None:
        raise ValueError(changes)

    manager = manager_of(root)
    with manager.watch(fail, polling=True, poll_seconds=3600) as watcher:
        watcher.listen(heard.append)
        edit(root)
        manager.discover()

    assert heard == [Changes(changed=DEMO)]
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


def test_a_listener_may_look_again(root: Path) -> None:
    manager = manager_of(root)
    heard: list[Changes] = []

    def listen(changes: Changes) -> None:
        heard.append(changes)
        if len(heard) == 1:
            edit(root, 3)
            manager.discover()

    with manager.watch(listen, polling=True, poll_seconds=3600):
        edit(root, 2)
        manager.discover()

    assert heard == [Changes(changed=DEMO)] * 2


def test_a_manager_has_one_watcher_at_a_time(root: Path) -> None:
    manager = manager_of(root)

    with manager.watch(polling=True), pytest.raises(AlreadyWatchedError) as caught, manager.watch():
        pass

    assert (caught.value.code, "watcher.listen" in caught.value.hint) == ("already_watched", True)
    with manager.watch(polling=True):
        assert manager.call("demo.say").structured == [1, 1]


def test_without_watchfiles_it_polls_and_names_it_to_those_who_want_no_polling(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    heard: queue.Queue[Changes] = queue.Queue()

    with manager_of(root).watch(heard.put):
        edit(root)
        assert heard.get(timeout=SECONDS) == Changes(changed=DEMO)
    with pytest.raises(MissingExtraError) as caught:
        manager_of(root).watch(polling=False)

    hint = "pip install 'watchfiles>=1.1', or leave polling=False out"
    assert caught.value.hint == hint


@pytest.mark.usefixtures("writes_directly")
def test_a_call_keeps_the_version_it_started_with(root: Path) -> None:
    # Bash reads a script while it runs it: without a copy, an edit changes a running call.
    work = root.parent / "work"
    slow = root / "demo/scripts/slow.sh"
    slow.write_text(
        "# Wait.\necho 1st\ntouch started\nuntil [ -e go ]; do sleep 0.05; done\necho 1st\n"
    )
    manager = manager_of(root)
    results: list[str] = []
    with manager.watch(polling=True, poll_seconds=3600):
        call = threading.Thread(target=lambda: results.append(manager.call("demo.slow").stdout))
        call.start()
        _wait_for(work / "started")

        slow.write_text(slow.read_text().replace("1st", "2nd"))
        manager.discover()
        (work / "go").touch()
        call.join(SECONDS)

        assert manager.call("demo.slow").stdout == "2nd\n2nd\n"
    assert results == ["1st\n1st\n"]


@pytest.mark.usefixtures("writes_directly")
def test_a_call_that_outlives_its_watcher_keeps_its_files(root: Path) -> None:
    work = root.parent / "work"
    (root / "demo/scripts/part.py").write_text("N = 1\n")
    (root / "demo/scripts/late.py").write_text(
        '"""Import late."""\nimport os, time\n\n\ndef handler(args):\n    open("started", "w")\n'
        '    while not os.path.exists("go"):\n        time.sleep(0.05)\n'
        "    import part\n    return [part.N, os.environ['SKILL_BASE_DIR']]\n"
    )
    manager = manager_of(root)
    results: list[list[object]] = []
    with manager.watch(polling=True, poll_seconds=3600):
        call = threading.Thread(target=lambda: results.append(manager.call("demo.late").structured))
        call.start()
        _wait_for(work / "started")
        (root / "demo/scripts/part.py").write_text("N = 2\n")
    (work / "go").touch()
    call.join(SECONDS)

    [[number, folder]] = results
    assert number == 1
    assert not Path(str(folder)).parents[1].exists()


def _wait_for(file: Path) -> None:
    waiting = threading.Event()
    for _ in range(1200):
        if file.exists():
            return
        waiting.wait(0.05)
    raise AssertionError(f"{file} never came")


@pytest.mark.timeout(300)
def test_nothing_is_left_behind_after_watching(root: Path, tmp_path: Path) -> None:
    program = (
        "import sys; from skillpouch import SkillManager\n"
        "manager = SkillManager(sys.argv[1], workspace=sys.argv[2])\n"
        "with manager.watch():\n"
        "    print(manager.call('demo.say').structured, flush=True)\n"
        "    sys.stdin.read(1) and exit()\n"
    )
    own = tmp_path / "cache" / "skillpouch" / "copies"
    for end in (b"\n", None):
        running = subprocess.Popen(
            [sys.executable, "-c", program, str(root), str(root.parent / "work")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")},
        )
        assert running.stdin
        assert running.stdout
        assert running.stdout.readline() == b"[1, 1]\n"
        assert len(list(own.glob("skillpouch-copies-*"))) == 1
        if end is None:
            running.send_signal(signal.SIGKILL)
        running.communicate(end)
        left = list(own.glob("skillpouch-copies-*"))
        # Killed, it could not tidy up: the next one does, which is this one.
        assert len(left) == (end is None)
    again = subprocess.run(
        [sys.executable, "-c", program, str(root), str(root.parent / "work")],
        input=b"\n",
        capture_output=True,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")},
        check=True,
    )
    assert again.stdout == b"[1, 1]\n"
    assert list(own.glob("skillpouch-copies-*")) == []


def test_old_versions_are_removed_when_nobody_runs_them(root: Path) -> None:
    manager = manager_of(root)
    with manager.watch(polling=True, poll_seconds=3600, settle_seconds=0.02):
        folders = []
        for version in range(2, 6):
            edit(root, version)
            manager.discover()
            folders.append(Path(manager._library.get("demo.say").home))
        manager.discover()
        manager._library._watcher._reloading._reader.tidy()  # type: ignore[union-attr]

        assert [folder.exists() for folder in folders] == [False, False, False, True]
        assert digest_of(folders[-1]) == digest_of(root / "demo")


@pytest.mark.timeout(300)
@WAYS
def test_a_skill_that_never_keeps_still_is_served_all_the_same(root: Path, polling: bool) -> None:
    stop = threading.Event()

    def scribble() -> None:
        with (root / "demo/log.txt").open("a") as log:
            while not stop.wait(0.002):
                log.write("more\n")
                log.flush()

    scribbling = threading.Thread(target=scribble)
    manager = manager_of(root)
    heard: queue.Queue[Changes] = queue.Queue()
    with manager.watch(heard.put, polling=polling):
        scribbling.start()
        try:
            edit(root, 2)
            while manager.call("demo.say").structured != [2, 2]:
                heard.get(timeout=SECONDS)
            skills.write(root / "other", 3)
            while manager.call("demo.say").structured != [2, 2] or len(manager.list_skills()) < 2:
                heard.get(timeout=SECONDS)
        finally:
            stop.set()
            scribbling.join()
        manager.discover()

        assert [each.code for each in manager.problems] == []


WATCHES = """
import queue, sys
from pathlib import Path
from skillpouch import SkillManager
root = Path(sys.argv[1])
heard = queue.Queue()
manager = SkillManager(root, workspace=root.parent / "work", journal=False)
with manager.watch(heard.put, polling=False):
    (root / "demo/scripts/say.py").write_text(sys.stdin.read())
    print(heard.get(timeout=60).changed.skills)
"""


def test_a_watcher_polls_when_inotify_is_used_up(root: Path) -> None:
    # In a user namespace the number of instances can be set (user_namespaces(7)), for it alone.
    limit = 'echo 0 > /proc/sys/user/max_inotify_instances && exec "$0" -c "$1" "$2"'

    ran = subprocess.run(
        ["unshare", "--user", "--map-root-user", "sh", "-c", limit, sys.executable, WATCHES, root],
        input=skills.script(2),
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.stdout == "('demo',)\n", ran.stderr
    assert "polling instead" in ran.stderr
