import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillpouch.net.hosts import is_public

INSIDE = [
    "0.0.0.0",
    "0.1.2.3",
    "127.0.0.1",
    "127.255.255.254",
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "100.64.0.1",
    "100.127.255.255",
    "169.254.169.254",
    "169.254.170.2",
    "168.63.129.16",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:0:7f00:1",
    "64:ff9b::7f00:1",
    "64:ff9b::169.254.169.254",
    "64:ff9b:1::a00:1",
    "64:ff9b:1::808:808",
    "2002:7f00:1::",
    "2002:a9fe:a9fe::1",
    "2001::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "100::1",
    "2001:db8::1",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
]
PUBLIC = [
    "8.8.8.8",
    "1.1.1.1",
    "172.15.0.1",
    "172.32.0.1",
    "100.63.0.1",
    "100.128.0.1",
    "2606:4700::1111",
    "2a00::1",
    "2001:4860:4860::8888",
    "::ffff:8.8.8.8",
    "64:ff9b::808:808",
    "2002:808:808::1",
]


@pytest.mark.promise("http-1")
@pytest.mark.parametrize("address", INSIDE)
def test_an_address_of_this_machine_or_its_networks_is_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_an_address_of_the_internet_is_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize("text", ["", "localhost", "127.1", "0x7f000001", "2130706433", "1.2.3.4."])
def test_what_is_no_address_leads_nowhere(text: str) -> None:
    assert not is_public(text)


@given(st.ip_addresses(v=4))
def test_an_address_inside_another_is_as_public_as_it_is_by_itself(
    address: ipaddress.IPv4Address,
) -> None:
    number = int(address)
    spellings = (0xFFFF << 32 | number, 0x64FF9B << 96 | number, 0x2002 << 112 | number << 80)

    found = {is_public(str(ipaddress.IPv6Address(spelt))) for spelt in spellings}

    assert found == {is_public(str(address))}
    assert not is_public(str(ipaddress.IPv6Address(number)))


@given(st.ip_addresses())
def test_whatever_the_standard_library_calls_private_is_not_public(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    inner = getattr(address, "ipv4_mapped", None) or getattr(address, "sixtofour", None) or address
    if not inner.is_global or inner.is_multicast:
        assert not is_public(str(address))
