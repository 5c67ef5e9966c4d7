"""What can go wrong between a request and its answer."""

from skillpouch.errors import CallDeniedError, PortableError
from skillpouch.net.hosts import Host


class InsideAddressError(CallDeniedError):
    """A host that was granted leads to an address that was not: this machine, or its network."""

    code = "address_refused"

    def __init__(self, host: Host, address: str, *, skill: str = "NAME") -> None:
        self.host = host
        self.address = address
        self.granting = str(Host(address, host.port, is_address=True))
        super().__init__(
            f"{host.name} leads to {address}, of this machine or its network: nothing was sent",
            hint=f"to allow it, run `skillpouch trust {skill} --host {self.granting}`",
        )


class ExchangeError(PortableError):
    """A request that went out, or tried to, and got no answer that can be used.

    `code` is what the result says; the message is for people and never holds a secret.
    """

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


class PlanError(PortableError, ValueError):
    """A declaration that says no request; `at` is the field, `in_template` what it holds."""

    def __init__(self, message: str, at: str = "", *, in_template: bool = False) -> None:
        self.at = at
        self.in_template = in_template
        super().__init__(f"{at}: {message}" if at else message)
