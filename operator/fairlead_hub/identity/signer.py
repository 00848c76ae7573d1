"""Who signs: a port.  ``io.identity`` has the signers (``files``, ``cert-manager``).

    Template ─sign─▶ Issued, or SignerUnavailable with the remedy

A template names all that makes a certificate, its serial number too: a signer given the same again answers the same
bytes (``files``), or the same certificate it made before (``cert-manager``).
"""

from __future__ import annotations

import datetime
from typing import Protocol

import msgspec

from fairlead_wire.errors import Temporary
from fairlead_wire.identity.node_names import NodeNames


class CheckedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is left of a request: its key, whose possession it has proved."""

    der: bytes
    public_key: bytes
    """SubjectPublicKeyInfo, DER."""
    key_sha256: str
    """Of ``public_key``, lower-case hexadecimal: one key, one value."""


class AuthorityBundle(msgspec.Struct, frozen=True, kw_only=True):
    """Our authorities (PEM) and their digest, and what vouches for them: our certificate and its chain (PEM)."""

    digest: str
    authorities: bytes
    certificates: str


class CertificateTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """One certificate that is to be made.  Times are UTC, whole seconds."""

    names: NodeNames
    request: CheckedRequest
    serial: int
    not_before: datetime.datetime
    not_after: datetime.datetime
    revoked_before: datetime.datetime | None = None
    """A certificate that begins earlier is refused already; None: none is."""


class SignedCertificate(msgspec.Struct, frozen=True, kw_only=True):
    """``chain``: PEM, the node's certificate first, then authorities below the root."""

    node: str
    chain: bytes
    serial: str
    """Hexadecimal, lower-case; with ``cert-manager`` the issuer's own."""
    issuer: str
    """The authority's name, for people."""
    not_before: datetime.datetime
    not_after: datetime.datetime


class Authority(msgspec.Struct, frozen=True, kw_only=True):
    """Who signs now.  ``fingerprint``: SHA-256 of its certificate, hexadecimal.  Both empty: the issuer alone knows."""

    name: str
    fingerprint: str = ""
    not_before: datetime.datetime = datetime.datetime.min.replace(tzinfo=datetime.UTC)
    not_after: datetime.datetime = datetime.datetime.max.replace(tzinfo=datetime.UTC)


class SignerUnavailable(Temporary):
    """Not signed now; the text names the remedy."""


class Signer(Protocol):
    """One way of getting certificates signed."""

    @property
    def takes_names(self) -> bool:
        """Does it take names from the request?  Then the request must ask for the node's."""

    @property
    def authority(self) -> Authority:
        """Who signs now.  A certificate's times stay within its own."""

    async def sign(self, template: CertificateTemplate) -> SignedCertificate:
        """Raises ``SignerUnavailable``."""


def serial_text(serial: int) -> str:
    """As it is written down and compared."""
    return f"{serial:x}"
