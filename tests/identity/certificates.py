"""A certificate for this machine's loopback address, by an authority of its own."""

import ipaddress
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def write_certificates(directory):
    """(the authority, the certificate, its key) as PEM files in the directory."""
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = _certificate("authority of the tests", "authority of the tests", authority_key, authority_key)
    certificate = _certificate("127.0.0.1", "authority of the tests", key, authority_key)
    files = {
        "authority.pem": authority.public_bytes(serialization.Encoding.PEM),
        "certificate.pem": certificate.public_bytes(serialization.Encoding.PEM),
        "key.pem": key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    }
    for name, content in files.items():
        (directory / name).write_bytes(content)
    return tuple(directory / name for name in files)


def _certificate(name, issuer, key, authority_key):
    is_authority = key is authority_key
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=2))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False
        )
    )
    if not is_authority:
        address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        builder = builder.add_extension(x509.SubjectAlternativeName([address]), critical=False)
    return builder.sign(authority_key, hashes.SHA256())


def _name(text):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
