"""The certificate by which executors know the server: made when it starts, told with the address, and never kept.

Whoever knows the token knows the certificate, too, since both travel in Spark's tasks. So nothing has to be installed,
and no authority is believed but the server itself.
"""

from __future__ import annotations

import datetime

import attrs
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from beam_runner_runtime.channel.place import SERVER_NAME

# Nobody but this server is believed, for as long as it runs; and clocks of machines differ.
_BEFORE = datetime.timedelta(days=365)
_AFTER = datetime.timedelta(days=3650)


@attrs.frozen
class Identity:
    """A key and its certificate, both as PEM."""

    key: bytes = attrs.field(repr=False)
    certificate: bytes = attrs.field(repr=False)


def make_identity() -> Identity:
    """A new one; takes some milliseconds."""
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
    return Identity(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
        certificate.public_bytes(serialization.Encoding.PEM),
    )
