"""Signer ``files``: the edge authority's certificate and key, mounted from a Secret and reloaded when it changes.

    ca_cert (the first signs, others may follow), ca_key ─load─▶ FileSigner ─sign─▶ Issued
        └─ replaced: validated completely, then used; otherwise the old pair stays and the log says why

The hub never writes these files: two hubs that each made an authority would lock out half of the nodes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes

from fairlead_hub.identity import certificate_profile, csr
from fairlead_hub.identity.certificate_profile import SigningKey
from fairlead_hub.identity.signer import (
    Authority,
    CertificateTemplate,
    SignedCertificate,
    SignerUnavailable,
    serial_text,
)
from fairlead_wire.identity.authority_bundle import is_issued
from fairlead_wire.io import logs
from fairlead_wire.io.tls import TlsFilesError

RELOAD_SECONDS: Final = 5.0
FILE_BYTES_MAX: Final = 256 * 1024
READABLE_BY_ALL: Final = 0o004
_log = logs.get("hub.signer")


class SignerFilesError(TlsFilesError):
    """The authority's certificate or key is unusable; the message names the file and the fix."""


class _Pair(msgspec.Struct, frozen=True):
    """The pair in use until other files are loaded."""

    certificate: x509.Certificate
    key: SigningKey
    intermediates: bytes
    """PEM of the signing certificate and those above it, without roots; empty if a root signs."""
    authority: Authority


class FileSigner:
    """``keep_loaded`` runs beside it.  Raises ``SignerFilesError`` at the start."""

    takes_names = False

    def __init__(self, ca_cert: Path, ca_key: Path, *, trusted: Callable[[], list[bytes]] = list) -> None:
        """``trusted``: authorities (DER) that the link trusts; a signer it does not trust would lock nodes out."""
        self._ca_cert, self._ca_key, self._trusted = ca_cert, ca_key, trusted
        self._stamps = self._read_stamps()
        self._wrong = ""
        """Why the current files are not used."""
        self._pair = _load(ca_cert, ca_key, trusted())

    @property
    def authority(self) -> Authority:
        return self._pair.authority

    async def sign(self, template: CertificateTemplate) -> SignedCertificate:
        pair = self._pair
        if template.not_after > pair.authority.not_after:
            raise SignerUnavailable(f"the authority {pair.authority.name} ends before the certificate would: try again")
        # A third of a millisecond with elliptic curves: not worth a thread.
        made = certificate_profile.certificate(template, pair.certificate, pair.key)
        return SignedCertificate(
            node=template.names.node,
            chain=made.public_bytes(serialization.Encoding.PEM) + pair.intermediates,
            serial=serial_text(template.serial),
            issuer=pair.authority.name,
            not_before=template.not_before,
            not_after=template.not_after,
        )

    async def keep_loaded(self) -> None:
        """Run until cancelled."""
        while True:
            await asyncio.sleep(RELOAD_SECONDS)
            self.reload()

    def reload(self) -> None:
        """Load replaced files if they are usable; otherwise retry, because what the link trusts may change later."""
        stamps = self._read_stamps()
        if stamps == self._stamps and not self._wrong:
            return
        self._stamps = stamps
        try:
            self._pair = _load(self._ca_cert, self._ca_key, self._trusted())
        except SignerFilesError as error:
            if str(error) != self._wrong:
                self._wrong = str(error)
                _log.error(
                    "signer_not_reloaded",
                    reason=self._wrong,
                    remedy="the old pair keeps signing until the files are correct",
                )
        else:
            self._wrong = ""
            authority = self.authority
            _log.info("signer_reloaded", authority=authority.name, fingerprint=authority.fingerprint)

    def _read_stamps(self) -> tuple[tuple[int, int, int] | None, ...]:
        stamps: list[tuple[int, int, int] | None] = []
        for path in (self._ca_cert, self._ca_key):
            try:
                status = path.stat()
            except OSError:
                stamps.append(None)
            else:
                stamps.append((status.st_ino, status.st_mtime_ns, status.st_size))
        return tuple(stamps)


def _load(ca_cert: Path, ca_key: Path, trusted: list[bytes]) -> _Pair:
    """Raises ``SignerFilesError``, whatever the files contain or happens to them meanwhile."""
    try:
        return _pair(ca_cert, ca_key, trusted)
    except (OSError, *csr.UNREADABLE) as error:
        raise SignerFilesError(f"[identity] ca_cert {ca_cert}, ca_key {ca_key}: {error}") from None


def _pair(ca_cert: Path, ca_key: Path, trusted: list[bytes]) -> _Pair:
    first, *others = _certificates(ca_cert)
    key = _key(ca_key)
    if _public(key.public_key()) != _public(first.public_key()):
        raise SignerFilesError(
            f"[identity] ca_key {ca_key} is not the key of the first certificate in ca_cert {ca_cert}"
        )
    try:
        is_authority = first.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (x509.ExtensionNotFound, ValueError):
        is_authority = False
    if not is_authority:
        raise SignerFilesError(f"[identity] ca_cert {ca_cert}: its first certificate is not an authority")
    authority = Authority(
        name=certificate_profile.name(first),
        fingerprint=first.fingerprint(hashes.SHA256()).hex(),
        not_before=first.not_valid_before_utc,
        not_after=first.not_valid_after_utc,
    )
    chain = _chain(first, others)
    if trusted and not certificate_profile.leads_to((first, *chain), trusted):
        reason = f"[identity] ca_cert {ca_cert}: link_ca does not trust {authority.name}, so no node it signs could"
        raise SignerFilesError(f"{reason} connect: add it to link_ca first")
    if ca_key.stat().st_mode & READABLE_BY_ALL:
        _log.warning("signer_key_readable", file=str(ca_key), reason="every user of this machine can read it")
    intermediates = b"".join(each.public_bytes(serialization.Encoding.PEM) for each in chain)
    return _Pair(first, key, intermediates, authority)


def _certificates(path: Path) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(_read(path))
    except (OSError, ValueError) as error:
        raise SignerFilesError(f"[identity] ca_cert {path}: {error}") from None


def _key(path: Path) -> SigningKey:
    try:
        key = serialization.load_pem_private_key(_read(path), None)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise SignerFilesError(f"[identity] ca_key {path}: {error}") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey):
        raise SignerFilesError(f"[identity] ca_key {path}: use an elliptic curve, Ed25519 or RSA key")
    return key


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        content = file.read(FILE_BYTES_MAX + 1)
    if len(content) > FILE_BYTES_MAX:
        raise ValueError(f"larger than {FILE_BYTES_MAX} bytes")
    return content


def _public(key: CertificatePublicKeyTypes) -> bytes:
    der, info = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_bytes(der, info)


def _chain(first: x509.Certificate, others: list[x509.Certificate]) -> list[x509.Certificate]:
    """The chain a server has to present beside the leaf: from the signing certificate upwards, without roots."""
    chain: list[x509.Certificate] = []
    current: x509.Certificate | None = first
    while current is not None and current not in chain and current.issuer != current.subject:
        chain.append(current)
        current = next((each for each in others if is_issued(chain[-1], each)), None)
    return chain
