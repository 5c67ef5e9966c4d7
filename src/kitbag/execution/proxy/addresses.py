"""Addresses that are not on the internet: this machine, its networks, and ways around to them."""

from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

# Written out, because `is_global` is true for addresses that lead inside by another way.
_THIS_MACHINE = "0.0.0.0/8 127.0.0.0/8 ::/128 ::1/128"
_OWN_NETWORKS = "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 100.64.0.0/10 fc00::/7 fec0::/10"
# Cloud machines learn their keys at such addresses; the last one is Azure's.
_LINK = "169.254.0.0/16 fe80::/10 168.63.129.16/32"
_SEVERAL = "224.0.0.0/4 240.0.0.0/4 ff00::/8"
# An IPv4 address inside another: compatible, mapped, NAT64, 6to4, Teredo.
_EMBEDDED = "::/96 ::ffff:0:0/96 ::ffff:0:0:0/96 64:ff9b::/96 64:ff9b:1::/48 2002::/16 2001::/23"
_SET_ASIDE = (
    "192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 "
    "100::/64 2001:db8::/32 3fff::/20 5f00::/16"
)
_INSIDE: tuple[IPv4Network | IPv6Network, ...] = tuple(
    ip_network(network)
    for line in (_THIS_MACHINE, _OWN_NETWORKS, _LINK, _SEVERAL, _EMBEDDED, _SET_ASIDE)
    for network in line.split()
)


def is_inside(address: str) -> bool:
    """Tell whether an address leads anywhere but the internet; what is no address does."""
    try:
        found = ip_address(address)
    except ValueError:
        return True
    return any(found.version == network.version and found in network for network in _INSIDE)
