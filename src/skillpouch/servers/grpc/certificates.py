"""TLS for gRPC: the server's certificate and, if clients are to have one, who vouches for them."""

import ssl
from pathlib import Path

import grpc

from skillpouch.servers.errors import CertificateError
from skillpouch.servers.grpc.settings import GrpcSettings


def credentials_of(settings: GrpcSettings) -> grpc.ServerCredentials | None:
    """Return the certificates to serve with; None is plain text.

    Raises:
        CertificateError: a file cannot be read, or they do not belong together.
    """
    if settings.tls_cert is None:
        for name in (settings.tls_key, settings.tls_client_ca):
            if name is not None:
                raise CertificateError(str(name), "there is no --tls-cert to go with it")
        return None
    _check(settings)
    certificate = _read(settings.tls_cert)
    key = _read(settings.tls_key or settings.tls_cert)
    authority = None if settings.tls_client_ca is None else _read(settings.tls_client_ca)
    return grpc.ssl_server_credentials(
        [(key, certificate)],
        root_certificates=authority,
        require_client_auth=authority is not None,
    )


def _check(settings: GrpcSettings) -> None:
    """Say now what is wrong: gRPC would only refuse every client."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(str(settings.tls_cert), settings.tls_key)
        if settings.tls_client_ca:
            context.load_verify_locations(settings.tls_client_ca)
    except (OSError, ssl.SSLError) as error:
        raise CertificateError(str(settings.tls_cert), str(error)) from None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CertificateError(str(path), (error.strerror or str(error)).lower()) from None
