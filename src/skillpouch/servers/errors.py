"""What keeps a server from starting, or from taking one more call."""

from skillpouch.errors import SkillpouchError


class AddressError(SkillpouchError):
    """A place to listen at that is none, or that nobody could be let in at safely."""

    code = "address"

    def __init__(self, text: str, reason: str, *, hint: str = "") -> None:
        self.text = text
        super().__init__(f"cannot listen at {text}: {reason}", hint=hint)


class TokenFileError(SkillpouchError):
    """A file of tokens that cannot be used."""

    code = "token_file"

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        super().__init__(
            f"{path} cannot be used: {reason}",
            hint="one token per line, 16 characters or more, in a file that only you can read "
            "(chmod 600)",
        )


class CertificateError(SkillpouchError):
    """A certificate or key that cannot be used."""

    code = "certificate"

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        super().__init__(
            f"cannot use the certificate {path}: {reason}",
            hint="give --tls-cert and --tls-key as PEM files that belong together",
        )


class ServerBusyError(SkillpouchError):
    """More calls are waiting than the server holds; the same call may pass a moment later."""

    code = "server_busy"

    def __init__(self, running: int, waiting: int) -> None:
        self.running = running
        self.waiting = waiting
        super().__init__(
            f"the server is busy: {running} calls run and {waiting} wait", hint="try again later"
        )


class ServerStoppingError(SkillpouchError):
    """The server finishes what runs and takes nothing new."""

    code = "server_stopping"

    def __init__(self) -> None:
        super().__init__("the server is stopping", hint="connect again in a moment")
