"""Certificates for tests and the demo: one authority, any number of servers and clients, and signing requests.

Elliptic curve keys (milliseconds to make); an RSA key only where Kubernetes wants one for service account tokens, and
where a test asks for it.  Tests may request invalid ones: another name, a weak key, the bit of an authority.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID = datetime.timedelta(days=30)
SKEW = datetime.timedelta(minutes=5)
PRIVATE_MODE = 0o600
COMMON_NAME_CHARS_MAX = 64
"""RFC 5280, upper bounds."""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A certificate and its key, as PEM files."""

    certificate: Path
    key: Path


def write_key(path: Path, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey) -> Path:
    """Write a private key as unencrypted PKCS 8 PEM, readable by its owner only."""
    path.touch(mode=PRIVATE_MODE)
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return path


def service_account_keys(folder: Path) -> Pair:
    """The RSA pair with which the API server signs and checks service account tokens (`certificate`: public key)."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = folder / "service-account.pub"
    public.write_bytes(
        key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    return Pair(certificate=public, key=write_key(folder / "service-account.key", key))


def signing_request(
    key: Any,
    *,
    name: str = "",
    alternatives: Sequence[x509.GeneralName] = (),
    extensions: Sequence[tuple[x509.ExtensionType, bool]] = (),
    algorithm: hashes.SHA224 | hashes.SHA256 | None = None,
    attributes: Sequence[x509.NameAttribute[str]] = (),
) -> bytes:
    """A certificate signing request in DER, right or wrong as the test says; ``key`` is any private key."""
    subject = [*([x509.NameAttribute(NameOID.COMMON_NAME, name)] if name else ()), *attributes]
    builder = x509.CertificateSigningRequestBuilder(x509.Name(subject))
    if alternatives:
        builder = builder.add_extension(x509.SubjectAlternativeName(list(alternatives)), critical=False)
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical=critical)
    has_hash = not isinstance(key, ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey)
    made = builder.sign(key, (algorithm or hashes.SHA256()) if has_hash else None)
    return made.public_bytes(serialization.Encoding.DER)


def named(name: str) -> x509.Name:
    """A subject with only a common name."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


class Authority:
    """A certificate authority in a folder: `ca.crt`, and what it issues beside it."""

    def __init__(
        self,
        folder: Path,
        name: str = "fairlead test authority",
        *,
        signer: Authority | None = None,
        valid: datetime.timedelta = VALID,
        private_key: Any = None,
        is_authority: bool = True,
        age: datetime.timedelta = SKEW,
    ) -> None:
        """Self-signed, or signed by ``signer``.  ``is_authority`` False: it may not sign; ``age``: since
        when it is valid."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.certificate = folder / "ca.crt"
        self._key = private_key or ec.generate_private_key(ec.SECP256R1())
        self._name = named(name)
        self.key = write_key(folder / "ca.key", self._key)
        above, above_key = (signer._name, signer._key) if signer is not None else (self._name, self._key)
        now = datetime.datetime.now(datetime.UTC)
        usage = x509.KeyUsage(
            digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False,
            key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False,
            decipher_only=False,
        )  # fmt: skip
        certificate = (
            x509.CertificateBuilder(above, self._name, self._key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(min(now, now + valid) - age)
            .not_valid_after(now + valid)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(above_key, None if isinstance(above_key, ed25519.Ed25519PrivateKey) else hashes.SHA256())
        )
        self.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def issue(
        self,
        name: str,
        *,
        hosts: tuple[str, ...] = (),
        valid: datetime.timedelta = VALID,
        begins: datetime.datetime | None = None,
        uri: str = "",
        has_name: bool = True,
    ) -> Pair:
        """A pair named `name` for client and server use; `hosts` are DNS names, addresses or URIs.

        A name too long to be a common name is the first DNS name instead.  `begins`: not before; default a few minutes
        ago.  `uri`: a SPIFFE name.  `has_name`: False leaves the name out, which is then that of the files alone.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        content = self._certificate(
            name, key.public_key(), hosts=hosts, valid=valid, begins=begins, uri=uri, has_name=has_name
        )
        file = self.folder / name[:COMMON_NAME_CHARS_MAX]
        certificate = file.with_name(f"{file.name}.crt")
        certificate.write_bytes(content)
        return Pair(certificate=certificate, key=write_key(file.with_name(f"{file.name}.key"), key))

    def certify(self, request: bytes, name: str, *, hosts: tuple[str, ...] = ()) -> bytes:
        """The certificate (PEM) for the key of a request (DER), with these names and none of the request's."""
        key = x509.load_der_x509_csr(request).public_key()
        assert isinstance(key, ec.EllipticCurvePublicKey)
        return self._certificate(name, key, hosts=hosts)

    def _certificate(
        self,
        name: str,
        key: ec.EllipticCurvePublicKey,
        *,
        hosts: tuple[str, ...] = (),
        valid: datetime.timedelta = VALID,
        begins: datetime.datetime | None = None,
        uri: str = "",
        has_name: bool = True,
    ) -> bytes:
        now = datetime.datetime.now(datetime.UTC)
        is_short = len(name) <= COMMON_NAME_CHARS_MAX
        subject = named(name) if is_short and has_name else x509.Name([])
        builder = (
            x509.CertificateBuilder(self._name, subject, key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(begins or min(now, now + valid) - SKEW)
            .not_valid_after(now + valid)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]),
                critical=False,
            )
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        names = [_general_name(host) for host in (*([] if is_short else [name]), *hosts)]
        if uri:
            names.append(x509.UniformResourceIdentifier(uri))
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=not is_short)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _general_name(host: str) -> x509.GeneralName:
    if "://" in host:
        return x509.UniformResourceIdentifier(host)
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
