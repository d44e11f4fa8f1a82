"""Certificates of one's own making, to try TLS with."""

from __future__ import annotations

import ipaddress
from datetime import datetime, timedelta, timezone

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

__all__ = ["Authority"]

_DAY = timedelta(days=1)


class Authority:
    """A root that clients may trust."""

    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        basic = x509.BasicConstraints(ca=True, path_length=0)
        self._certificate = (
            _builder(self._name, self._key.public_key(), issuer=self._name)
            .add_extension(basic, critical=True)
            .sign(self._key, hashes.SHA256())
        )

    @property
    def root(self) -> str:
        """Its certificate in PEM."""
        return _pem(self._certificate)

    def issue(self, address: str) -> tuple[str, str]:
        """Certificate and key in PEM of a server at this IP address."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
        certificate = (
            _builder(_named(address), key.public_key(), issuer=self._name)
            .add_extension(names, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        return _pem(certificate), private.decode()


def _builder(
    subject: x509.Name, key: ec.EllipticCurvePublicKey, *, issuer: x509.Name
) -> x509.CertificateBuilder:
    now = datetime.now(timezone.utc)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + _DAY)
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
