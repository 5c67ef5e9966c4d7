"""Names in queries of a call, which are bytes of an untrusted program."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from skillpouch.execution.replies import Finished, Lost, read_reply
from skillpouch.execution.zygote import wire
from skillpouch.execution.zygote.lookups import name_in

LABELS = st.lists(
    st.text(st.sampled_from("abzAZ019-_"), min_size=1, max_size=63), min_size=1, max_size=4
)


def query(labels: list[str]) -> bytes:
    head = struct.pack("!6H", 7, 0x0100, 1, 0, 0, 0)
    body = b"".join(bytes([len(label)]) + label.encode() for label in labels)
    return head + body + b"\0" + struct.pack("!2H", 1, 1)


@given(labels=LABELS)
def test_the_name_of_a_query_is_read_as_it_is_written(labels: list[str]) -> None:
    name = ".".join(labels)

    assert name_in(query(labels)) == (name.encode() if len(name) <= 253 else b"")


@given(data=st.binary(max_size=600))
def test_any_bytes_give_a_name_of_plain_letters_or_none(data: bytes) -> None:
    name = name_in(data)

    assert len(name) <= 253
    assert not set(name.lower()) - set(b"abcdefghijklmnopqrstuvwxyz0123456789-_.")


def test_names_come_after_the_numbers_of_an_end() -> None:
    reply = read_reply(wire.ENDED + b" 1 0 2 3 4 4 0 api.example.com b.example")
    without = read_reply(wire.ENDED + b" 1 0 2 3 4 1 0")

    assert isinstance(reply, Finished)
    assert isinstance(without, Finished)
    assert (reply.looked_up, without.looked_up) == (("api.example.com", "b.example"), ())
    assert read_reply(wire.ENDED + b" 1 0 2 3 4 4 0 caf\xc3\xa9.example") == Lost()
