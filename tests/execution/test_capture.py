import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from skillpouch.execution.replies import (
    Finished,
    Ineligible,
    Lost,
    NotStarted,
    Ready,
    read_reply,
)
from skillpouch.execution.streams import Capture, save_output
from skillpouch.results import Captured


def capture(pieces: list[bytes], keep_bytes: int) -> Captured:
    taking = Capture(keep_bytes, lambda: None)
    for piece in pieces:
        taking.add(piece)
    return taking.finish()


@given(st.lists(st.binary(max_size=40)), st.integers(min_value=0, max_value=50))
def test_what_is_kept_is_head_and_tail_and_never_longer_than_allowed(
    pieces: list[bytes], keep_bytes: int
) -> None:
    whole = b"".join(pieces)

    kept = capture(pieces, keep_bytes)

    assert len(kept.head) + len(kept.tail) <= keep_bytes
    assert kept.total_bytes == len(whole)
    assert whole.startswith(kept.head)
    assert whole.endswith(kept.tail)
    assert kept.truncated == (len(kept.head + kept.tail) < len(whole))
    if len(whole) <= keep_bytes:
        assert kept == Captured(head=whole, total_bytes=len(whole))


@given(st.text(alphabet="aä€🙂", max_size=200), st.integers(min_value=0, max_value=60))
def test_a_character_is_never_cut(text: str, keep_bytes: int) -> None:
    kept = capture([text.encode()[i : i + 7] for i in range(0, 800, 7)], keep_bytes)

    kept.head.decode()
    kept.tail.decode()


def test_text_says_how_much_was_left_out() -> None:
    kept = capture([b"0123456789"], 4)

    assert kept.text == "01\n[... 6 bytes left out ...]\n89"
    assert capture([b"\xff"], 4).text == "\ufffd"


def test_a_tool_cannot_point_the_saved_output_somewhere_else(tmp_path: Path) -> None:
    workspace, outside = tmp_path / "workspace", tmp_path / "outside"
    workspace.mkdir()
    outside.mkdir()

    (workspace / ".skillpouch").symlink_to(outside)
    assert save_output(workspace, "stdout") is None
    (workspace / ".skillpouch").unlink()
    (workspace / ".skillpouch").mkdir()
    (workspace / ".skillpouch" / "output").symlink_to(outside)
    assert save_output(workspace, "stdout") is None
    (workspace / ".skillpouch" / "output").unlink()
    os.mkfifo(workspace / ".skillpouch" / "output")
    assert save_output(workspace, "stdout") is None

    assert list(outside.iterdir()) == []


def test_a_full_disk_does_not_fail_the_call() -> None:
    fd = os.open("/dev/full", os.O_WRONLY)
    from skillpouch.execution.streams import SavedOutput

    saved = SavedOutput(Path("/dev/full"), fd)
    saved.write(b"x")
    saved.close()


@given(st.binary(max_size=60))
def test_whatever_a_slot_sends_is_a_reply(packet: bytes) -> None:
    assert isinstance(read_reply(packet), Finished | NotStarted | Lost | Ready | Ineligible)


def test_replies_are_read_by_their_letter() -> None:
    assert read_reply(b"N 3 2") == NotStarted(call=3, errno=2)
    assert read_reply(b"X 1 -9 10000 20000 300 1") == Finished(
        call=1,
        status=-9,
        user_seconds=0.01,
        system_seconds=0.02,
        peak_memory_bytes=307_200,
        reusable=True,
    )
    assert read_reply(b"X 1 999 10 20 300 1") == Lost()
    assert read_reply(b"F no") == Lost(reason="no")


@given(st.lists(st.integers(), min_size=6, max_size=6), st.sampled_from([b"X", b"N", b"U", b"L"]))
def test_whatever_numbers_a_prefork_makes_up_the_host_survives_them(
    numbers: list[int], kind: bytes
) -> None:
    packet = kind + b"".join(b" %d" % number for number in numbers)

    assert isinstance(read_reply(packet), Finished | NotStarted | Lost | Ineligible)


def test_a_time_too_long_for_a_float_is_no_answer() -> None:
    assert read_reply(b"X 1 0 1%b 0 0 1" % (b"0" * 320)) == Lost()
    assert read_reply(b"L 7") == Lost(call=7)
