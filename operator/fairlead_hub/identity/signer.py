"""The port that signs certificates of nodes, and the validity period of a certificate.

    now, days, revoked before, authority's own end ─times─▶ not before … not after
    CertificateTemplate ─sign─▶ SignedCertificate, or SignerUnavailable with the remedy

A template determines the whole certificate, including its serial number.  Given the same template again, a signer
returns the same bytes (``files``, by ``certificate_profile``) or the same certificate as before (``cert-manager``).
Both are in ``io.identity``.  Hubs that sign nothing import this module too, and so it needs no cryptography.

A certificate becomes valid a few minutes before now, for clocks that are slow, but never earlier than the moment at
which the node's identity was revoked: that moment alone separates older certificates from newer ones.
"""

from __future__ import annotations

import datetime
from typing import Final, Protocol

import msgspec

from fairlead_wire.errors import Temporary
from fairlead_wire.identity.node_names import NodeNames


class CheckedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The checked part of a request: its key, whose possession it has proved."""

    der: bytes
    public_key: bytes
    """SubjectPublicKeyInfo, DER."""
    key_sha256: str
    """Hash of ``public_key``, lower-case hexadecimal; equal for equal keys."""


class AuthorityBundle(msgspec.Struct, frozen=True, kw_only=True):
    """Our authorities (PEM) and their digest, with our certificate and its chain (PEM) as proof."""

    digest: str
    authorities: bytes
    certificates: str


class CertificateTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """A certificate to be made.  Times are UTC, whole seconds."""

    names: NodeNames
    request: CheckedRequest
    serial: int
    not_before: datetime.datetime
    not_after: datetime.datetime
    revoked_before: datetime.datetime | None = None
    """A certificate that begins earlier is already revoked; None if there is no revocation."""


class SignedCertificate(msgspec.Struct, frozen=True, kw_only=True):
    """``chain``: PEM, the node's certificate first, then the authorities below the root."""

    node: str
    chain: bytes
    serial: str
    """Hexadecimal, lower-case; with ``cert-manager`` chosen by the issuer."""
    issuer: str
    """The authority's name, for people."""
    not_before: datetime.datetime
    not_after: datetime.datetime


class Authority(msgspec.Struct, frozen=True, kw_only=True):
    """The authority that signs now.  ``fingerprint``: SHA-256 of its certificate, hexadecimal.

    Both are empty if only the issuer knows.
    """

    name: str
    fingerprint: str = ""
    not_before: datetime.datetime = datetime.datetime.min.replace(tzinfo=datetime.UTC)
    not_after: datetime.datetime = datetime.datetime.max.replace(tzinfo=datetime.UTC)


class SignerUnavailable(Temporary):
    """Signing is not possible now; the message says how to fix it."""


class Signer(Protocol):
    """A way of getting certificates signed."""

    @property
    def takes_names(self) -> bool:
        """Whether it takes names from the request.  Then the request must contain the node's."""

    @property
    def authority(self) -> Authority:
        """The authority that signs now.  A certificate's validity stays within the authority's."""

    async def sign(self, template: CertificateTemplate) -> SignedCertificate:
        """Raises ``SignerUnavailable``."""


def serial_text(serial: int) -> str:
    """The form in which serial numbers are stored and compared."""
    return f"{serial:x}"


SKEW: Final = datetime.timedelta(minutes=5)
LIFE_MIN: Final = datetime.timedelta(minutes=1)
"""If less than this is left of the authority's validity, nothing is signed."""
SERIAL_BITS: Final = 159
"""Positive in 20 bytes (RFC 5280, section 4.1.2.2)."""


def validity(
    now: datetime.datetime,
    *,
    days: float,
    authority: Authority,
    revoked_before: datetime.datetime | None = None,
) -> tuple[datetime.datetime, datetime.datetime]:
    """Not before and not after, in whole seconds.

    Raises ``SignerUnavailable`` if the authority itself is about to expire.
    """
    now = now.replace(microsecond=0)
    if now + LIFE_MIN > authority.not_after:
        ended = f"the authority {authority.name} ends on {authority.not_after:%Y-%m-%d %H:%M UTC}"
        raise SignerUnavailable(f"{ended}: put a new one first in [identity] ca_cert")
    earliest = [now - SKEW, authority.not_before]
    if revoked_before is not None:
        earliest.append(revoked_before)
    return max(earliest), min(now + datetime.timedelta(days=days), authority.not_after)
