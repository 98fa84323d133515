"""TLS certificate of the channel server. The server creates it at startup, sends it with its address,
and never stores it.

Spark tasks contain the access token and the certificate. Therefore, operators don't have to install
certificates, and executors trust only this certificate.
"""

from __future__ import annotations

import datetime

import attrs
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from beam_runner_runtime.channel.place import SERVER_NAME

# The certificate can be valid for years, because executors trust it only while the server runs. The
# margin before the start time tolerates clock differences between machines.
_BEFORE = datetime.timedelta(days=365)
_AFTER = datetime.timedelta(days=3650)


@attrs.frozen
class ServerIdentity:
    """Private key and certificate, both in PEM format."""

    key: bytes = attrs.field(repr=False)
    certificate: bytes = attrs.field(repr=False)


def generate_identity() -> ServerIdentity:
    """Returns a new key and certificate. Takes a few milliseconds."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, SERVER_NAME)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BEFORE)
        .not_valid_after(now + _AFTER)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(SERVER_NAME)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    return ServerIdentity(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
        certificate.public_bytes(serialization.Encoding.PEM),
    )
