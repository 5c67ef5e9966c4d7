"""Hosts: a grant covers what it says, however the needed one is spelt, and nothing else."""

import re
from urllib.parse import urlsplit

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skillpouch.net.hosts import HostError, covers_host, host_of_url, is_private_name, read_host

without_deadline = settings(deadline=None)


@pytest.mark.parametrize(
    ("text", "spelt"),
    [
        ("api.example.com", "api.example.com"),
        ("API.Example.COM", "api.example.com"),
        ("api.example.com.", "api.example.com"),
        ("api.example.com:8443", "api.example.com:8443"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("XN--BCHER-KVA.example", "xn--bcher-kva.example"),
        ("*.example.com", "*.example.com"),
        ("*", "*"),
        ("localhost:8080", "localhost:8080"),
        ("127.0.0.1", "127.0.0.1"),
        ("[::1]:80", "[::1]:80"),
        ("::1", "[::1]"),
        ("[0:0:0:0:0:0:0:1]", "[::1]"),
        ("[::ffff:127.0.0.1]", "127.0.0.1"),
        ("a_b.example.com", "a_b.example.com"),
    ],
)
def test_a_host_has_one_spelling(text: str, spelt: str) -> None:
    assert str(read_host(text)) == spelt


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            ".",
            "..",
            "a..b",
            "a b",
            " a.com",
            "a.com\n",
            "a.com\0",
            "a/b",
            "a.com/",
            "a?b",
            "a#b",
        ),
        *(
            "user@a.com",
            "a.com\\@b.com",
            "a%2ecom",
            "https://a.com",
            "a.com:",
            "a.com:0",
            "a.com:080",
        ),
        *(
            "a.com:65536",
            "a.com:http",
            "a.com:\uff18\uff10",
            "-a.com",
            "a-.com",
            "${host}",
            "{host}",
            "a,b",
        ),
        *("127.1", "0x7f.1", "0x7f000001", "2130706433", "0177.0.0.1", "127.0.0.1.1", "1.2.3.256"),
        *("[::1", "[::1]x", "[::1%eth0]", "fe80::1%eth0", "[127.0.0.1]", "::g"),
        *("*.com", "*.localhost", "*.corp.internal", "*.1.2.3.4", "**.a.com", "*a.com", "a.*.com"),
        *("*.a.*.com", "a.com*", "*.*", "*.*.com"),
        # Letters that programs spell differently: sharp s, final sigma, Kelvin, fullwidth.
        *(
            "faß.de",
            "βόλος.example",
            "\u212aitbag.com",
            "\uff41pi.com",
            "a\u3002com",
            "a\u200db.com",
            "a\u05d0.com",
        ),
        *("a" * 64 + ".com", ".".join(["a" * 60] * 5)),
    ],
)
def test_what_can_be_read_in_two_ways_is_no_host(text: str) -> None:
    with pytest.raises(HostError):
        read_host(text)

    assert not covers_host(text, text)
    assert not covers_host("*", text)


@pytest.mark.promise("grant-4")
@pytest.mark.parametrize(
    ("granted", "needed"),
    [
        ("api.example.com", "API.example.com."),
        ("api.example.com", "api.example.com:443"),
        ("api.example.com", "api.example.com:80"),
        ("api.example.com:8443", "api.example.com:8443"),
        ("*.example.com", "a.example.com"),
        ("*.example.com", "b.a.example.com"),
        ("*.example.com", "*.a.example.com"),
        ("*.example.com", "*.example.com"),
        ("*", "example.com"),
        ("*", "*.example.com"),
        ("*", "*"),
        ("127.0.0.1:8080", "127.0.0.1:8080"),
        ("localhost:8080", "LOCALHOST:8080"),
        ("[::1]:8080", "[0::1]:8080"),
        ("bücher.example.com", "xn--bcher-kva.example.com"),
    ],
)
def test_a_granted_host_covers_itself_in_every_spelling(granted: str, needed: str) -> None:
    assert covers_host(granted, needed)


@pytest.mark.promise("grant-4")
@pytest.mark.parametrize(
    ("granted", "needed"),
    [
        ("api.example.com", "example.com"),
        ("api.example.com", "b.api.example.com"),
        ("api.example.com", "api.example.com.evil.com"),
        ("api.example.com", "api.example.comm"),
        ("api.example.com", "api.example.com:8443"),
        ("api.example.com", "api.example.com@evil.com"),
        ("api.example.com", "*.example.com"),
        ("api.example.com:443", "api.example.com"),
        ("api.example.com:8443", "api.example.com"),
        ("*.example.com", "example.com"),
        ("*.example.com", "evilexample.com"),
        ("*.example.com", "a.example.com.evil.com"),
        ("*.example.com", "a.example.com:8443"),
        ("*.a.example.com", "*.example.com"),
        ("*.example.com", "*"),
        ("*", "localhost"),
        ("*", "printer"),
        ("*", "db.internal"),
        ("*", "127.0.0.1"),
        ("*", "8.8.8.8"),
        ("*", "[::1]"),
        ("*", "[::ffff:127.0.0.1]"),
        ("*", "169.254.169.254"),
        ("*", "metadata.google.internal"),
        ("*", "example.com:22"),
        ("127.0.0.1", "localhost"),
        ("127.0.0.1", "127.1"),
        ("localhost", "127.0.0.1"),
        ("localhost", "a.localhost"),
        ("127.0.0.1", "[::1]"),
    ],
)
def test_a_granted_host_covers_no_other(granted: str, needed: str) -> None:
    assert not covers_host(granted, needed)


LABELS = st.text("abcxyz019-_", min_size=1, max_size=6)
NAMES = st.lists(LABELS, min_size=1, max_size=4).map(".".join)
PORTS = st.sampled_from(["", ":80", ":443", ":8443", ":1"])
STARS = st.sampled_from(["", "*."])
TRICKY = st.text(
    "aeilmopxz.:/@%[]*\\-_0127f?# \t\nAPI\u017fK\u212a\u3002\uff0e\u00df\u200d\uff41", max_size=24
)


def oracle(granted: str, needed: str) -> bool:
    """The rules once more, for names without stars: label by label, from the right."""
    grant, _, grant_port = granted.partition(":")
    need, _, need_port = needed.partition(":")
    ports = {grant_port} if grant_port else {"", "80", "443"}
    if need_port not in ports:
        return False
    if not grant.startswith("*."):
        return grant == need
    labels, wanted = need.split("."), grant[2:].split(".")
    return len(labels) > len(wanted) and labels[-len(wanted) :] == wanted


@without_deadline
@given(STARS, NAMES, PORTS, NAMES, PORTS)
@example("*.", "a.a", "", "a.a", "")
@example("*.", "a.a", "", "a.a.a", ":443")
def test_covering_is_what_the_rules_say(
    star: str, one: str, one_port: str, other: str, other_port: str
) -> None:
    granted, needed = f"{star}{one}{one_port}", f"{other}{other_port}"
    for text in (granted, needed):
        try:
            read_host(text)
        except HostError:
            assert not covers_host(granted, needed)
            return

    assert covers_host(granted, needed) == oracle(granted, needed)
    assert covers_host(granted, granted)


@without_deadline
@given(NAMES, PORTS, st.lists(st.booleans(), min_size=40, max_size=40), st.booleans())
def test_no_spelling_of_a_host_is_another_host(
    name: str, port: str, big: list[bool], dot: bool
) -> None:
    letters = zip(name, big * 2, strict=False)
    spelt = "".join(letter.upper() if up else letter for letter, up in letters)
    spelt = f"{spelt}{'.' if dot else ''}{port}"
    try:
        plain = str(read_host(f"{name}{port}"))
    except HostError:
        with pytest.raises(HostError):
            read_host(spelt)
        return

    assert str(read_host(spelt)) == plain
    assert str(read_host(plain)) == plain


@pytest.mark.promise("grant-4")
@without_deadline
@given(TRICKY, st.sampled_from(["", "a.example.com", ".example.com", "@a.example.com", ":443"]))
@example("evil.com/", "a.example.com")
@example("evil.com\\", "a.example.com")
@example("evil.com#", "a.example.com")
def test_what_is_covered_is_where_a_browser_would_go(start: str, end: str) -> None:
    text = f"{start}{end}"
    if not covers_host("*.example.com", text) or text.startswith("*"):
        return

    assert not set(text) & set("/\\@#?% \t\n")
    host = urlsplit(f"https://{text}/").hostname or ""
    assert re.search(r"[^.]\.example\.com\.?\Z", host)


@without_deadline
@given(st.text(max_size=40))
def test_any_text_is_a_host_or_an_error_and_covers_nothing_by_accident(text: str) -> None:
    try:
        host = str(read_host(text))
    except HostError:
        assert not covers_host("*", text)
        assert not covers_host(text, "example.com")
        return

    assert host.isascii()
    assert str(read_host(host)) == host


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://api.example.com/v1?x=${q}", "api.example.com"),
        ("HTTPS://API.example.com", "api.example.com"),
        ("https://api.example.com:443/", "api.example.com"),
        ("http://api.example.com:80/", "api.example.com"),
        ("https://api.example.com:80/", "api.example.com:80"),
        ("http://127.0.0.1:8080/x", "127.0.0.1:8080"),
        ("https://[::1]/", "[::1]"),
        ("https://${host}/", ""),
        ("https://${host}.example.com/", ""),
        ("https://{host}/", ""),
        ("https://user:pass@example.com/", ""),
        ("https://example.com\\@evil.com/", ""),
        ("https://example.com@evil.com/", ""),
        ("https://*.example.com/", ""),
        ("https:///x", ""),
        ("https://exa mple.com/", ""),
        ("ftp://example.com/", ""),
        ("//example.com/", ""),
        ("", ""),
    ],
)
def test_the_host_of_an_address_is_told_without_doubt_or_not_at_all(url: str, host: str) -> None:
    assert host_of_url(url) == host


def test_names_of_this_network_are_private() -> None:
    private = ["localhost", "printer", "a.local", "db.internal", "x.home.arpa"]

    assert [name for name in private if not is_private_name(name)] == []
    assert not is_private_name("example.com")
