"""Decides whether a node whose certificate expired while it was away may have a new one.

    PEM: leaf, chain ─▶ at the leaf's last moment: signed by an authority the link trusts now? ─▶ OldCertificate
    signature by its key over ``late_proof.content`` ─▶ verified, or ProofRefused
    Claim (proven) and what is known (EdgeNode, revocations) ─judge─▶ None: issue; else too_late, revoked, held …

Everything comes from a device that is not trusted yet, so sizes are bounded before anything is parsed.

A key can be copied with its disk.  A copy cannot have the newest certificate that was used, or a later one that was
issued and not used yet, nor the number of the store's opening that the hub saw last.  If one of these differs, a person
decides; the approval is for one claim against one state, and changes with either.

Certificates carry the hub's time, so the hub compares its clock with the ``Date`` of the API server's answers
(``clock_skew``): above ``WARN_SECONDS`` it logs the difference, above ``STOP_SECONDS`` it signs nothing.
"""

from __future__ import annotations

import datetime
import email.utils
import hashlib
from collections.abc import Sequence
from typing import Final, Literal

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.x509 import verification
from cryptography.x509.oid import NameOID

from fairlead_hub.identity.refusal import IdentityRefused
from fairlead_hub.identity.signer import serial_text
from fairlead_wire import durations
from fairlead_wire.errors import Permanent

DAY_SECONDS: Final = 86_400.0
HELD_RETRY_SECONDS: Final = 60.0
"""A person may approve it meanwhile."""
REFUSED_RETRY_SECONDS: Final = 600.0
"""Only another certificate or another setting helps."""
Code = Literal["starting", "late_off", "node_unknown", "revoked", "too_late", "not_newest", "held"]


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """What a device has proven: this certificate was valid at its end, and its key is there.  Unix times."""

    node: str
    serial: str
    not_before: float
    not_after: float
    store_epoch: int
    """As the device says: of its last session."""


class KnownNode(msgspec.Struct, frozen=True, kw_only=True):
    """What the hub remembers of the node, from its EdgeNode."""

    exists: bool
    """There is an edge Node of this name."""
    connected: bool = False
    """It has an open session."""
    recreated: bool = False
    """The Node was deleted and made again since its certificates were used."""
    given_to: str = ""
    """Another key that got a certificate for this very claim and has not used it yet."""
    newest_issued: float | None = None
    """When the newest certificate that it used was issued; None: none is remembered."""
    store_epoch: int = 0
    """Of its last session; 0: none is remembered."""
    revoked: str = ""
    """Why this certificate is among those that a person revoked."""
    approved: str = ""
    """The value that a person approved."""


class RenewalRefusal(msgspec.Struct, frozen=True, kw_only=True):
    """``held``: the value to approve; empty: approval does not help.  ``retry_after`` in seconds."""

    code: Code
    reason: str
    retry_after: float
    held: str = ""


def judge(claim: Claim, known: KnownNode, *, now: float, late_days: int) -> RenewalRefusal | None:
    """None: issue a new certificate."""
    if not late_days:
        reason = "late renewal is off here ([identity] late_days = 0): join again with a token"
        return RenewalRefusal(code="late_off", reason=reason, retry_after=REFUSED_RETRY_SECONDS)
    if not known.exists:
        reason = f"there is no Node {claim.node} with label node-role.kubernetes.io/edge"
        return RenewalRefusal(code="node_unknown", reason=reason, retry_after=HELD_RETRY_SECONDS)
    if known.revoked:
        return RenewalRefusal(code="revoked", reason=known.revoked, retry_after=REFUSED_RETRY_SECONDS)
    if now > claim.not_after + late_days * DAY_SECONDS:
        days = (now - claim.not_after) / DAY_SECONDS
        reason = f"the certificate ended {days:.0f} days ago, at most {late_days} are allowed: join again with a token"
        return RenewalRefusal(code="too_late", reason=reason, retry_after=REFUSED_RETRY_SECONDS)
    return _doubt(claim, known)


def _doubt(claim: Claim, known: KnownNode) -> RenewalRefusal | None:
    """What looks like a copy waits for a person."""
    code: Code = "held"
    if known.connected:
        doubt = "a machine with this identity is connected now"
    elif known.given_to:
        doubt = "another machine with the same disk has just got a certificate"
    elif known.recreated:
        doubt = "the Node was deleted and made again since"
    elif known.newest_issued is None:
        doubt = "no certificate of this node is remembered"
    elif int(claim.not_before) < int(known.newest_issued):
        code, doubt = "not_newest", "another certificate of this node was used after this one was issued"
    elif not known.store_epoch or claim.store_epoch != known.store_epoch:
        doubt = "its store is not as the last session left it (a copied disk, or an old backup)"
    else:
        return None
    held = value(claim, known)
    if known.approved == held:
        return None
    reason = f"{doubt}: look at the device, then: fairlead node approve {claim.node} (or join again with a token)"
    return RenewalRefusal(code=code, reason=reason, retry_after=HELD_RETRY_SECONDS, held=held)


def value(claim: Claim, known: KnownNode) -> str:
    """What a person approves: this claim, as long as nothing newer was used, and for one machine."""
    facts = (claim.node, claim.serial, claim.store_epoch, known.newest_issued, known.store_epoch, known.recreated)
    # Else the approval of the first machine would let in every copy of its disk.
    other = known.given_to and f"after {known.given_to}"
    return "late-" + hashlib.sha256(f"{facts!r}{other}".encode()).hexdigest()[:20]


PEM_BYTES_MAX: Final = 32 * 1024
CERTIFICATES_MAX: Final = 6
SIGNATURE_BYTES_MAX: Final = 1024
SPIFFE: Final = "spiffe://"
_SECOND: Final = datetime.timedelta(seconds=1)


class ProofRefused(Permanent):
    """``code`` is ``identity``: the device has not proved that it is this node."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, code="identity")


class OldCertificate(msgspec.Struct, frozen=True, kw_only=True):
    """One that was valid until ``not_after``.  Unix times."""

    name: str
    serial: str
    not_before: float
    not_after: float
    key: ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey | rsa.RSAPublicKey


def verify(pem: str, roots: Sequence[bytes]) -> OldCertificate:
    """``roots``: DER of the authorities of nodes.  Raises ``ProofRefused``."""
    leaf, *chain = _read(pem)
    try:
        key = leaf.public_key()
    except (ValueError, UnsupportedAlgorithm):
        raise ProofRefused("the certificate's key cannot be read") from None
    if not isinstance(key, ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey | rsa.RSAPublicKey):
        raise ProofRefused("the certificate's key is of a kind that is not taken")
    _verify_chain(leaf, chain, roots)
    name = _name(leaf)
    if not name:
        raise ProofRefused("the certificate carries no name")
    _require_role(leaf, name)
    return OldCertificate(
        name=name,
        serial=serial_text(leaf.serial_number),
        not_before=leaf.not_valid_before_utc.timestamp(),
        not_after=leaf.not_valid_after_utc.timestamp(),
        key=key,
    )


def verify_signature(old: OldCertificate, signature: bytes, content: bytes) -> None:
    """``content`` was signed by its key.  Raises ``ProofRefused``."""
    try:
        if len(signature) > SIGNATURE_BYTES_MAX:
            raise InvalidSignature
        match old.key:
            case ec.EllipticCurvePublicKey():
                old.key.verify(signature, content, ec.ECDSA(hashes.SHA256()))
            case ed25519.Ed25519PublicKey():
                old.key.verify(signature, content)
            case rsa.RSAPublicKey():
                scheme = padding.PSS(mgf=padding.MGF1(hashes.SHA256()), salt_length=hashes.SHA256.digest_size)
                old.key.verify(signature, content, scheme, hashes.SHA256())
    except (InvalidSignature, UnsupportedAlgorithm, ValueError):
        raise ProofRefused("the signature is not one by the key of the certificate over this conversation") from None


def _read(pem: str) -> list[x509.Certificate]:
    try:
        content = pem.encode("ascii")
        if len(content) > PEM_BYTES_MAX or content.count(b"-----BEGIN") > CERTIFICATES_MAX:
            raise ValueError("too large")
        return x509.load_pem_x509_certificates(content)
    except (ValueError, UnsupportedAlgorithm, x509.InvalidVersion):
        raise ProofRefused(f"no certificates in PEM, at most {CERTIFICATES_MAX}, can be read") from None


def _verify_chain(leaf: x509.Certificate, chain: list[x509.Certificate], roots: Sequence[bytes]) -> None:
    try:
        trusted = verification.Store([x509.load_der_x509_certificate(each) for each in roots])
        at = leaf.not_valid_after_utc - _SECOND
        # The library calls this part of itself unstable: it is used here and nowhere else.
        verifier = verification.PolicyBuilder().store(trusted).time(at).build_client_verifier()
        verifier.verify(leaf, chain)
    except (verification.VerificationError, ValueError, UnsupportedAlgorithm, OverflowError):
        reason = "the certificate was not valid at its end: no authority that this hub trusts for nodes signed it"
        raise ProofRefused(f"{reason} (join again with a token)") from None


def _name(leaf: x509.Certificate) -> str:
    """As ``io.tls.peer_name``: the common name, else the first DNS name."""
    for attribute in leaf.subject.get_attributes_for_oid(NameOID.COMMON_NAME):
        return str(attribute.value)
    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return ""
    return next(iter(names.get_values_for_type(x509.DNSName)), "")


def _require_role(leaf: x509.Certificate, name: str) -> None:
    """As the link: one authority may sign for all, and then only this tells a node from a program named like it."""
    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return
    uris = [uri for uri in names.get_values_for_type(x509.UniformResourceIdentifier) if uri.startswith(SPIFFE)]
    if any(uri.removeprefix(SPIFFE).partition("/")[2] != f"node/{name}" for uri in uris) or len(uris) > 1:
        raise ProofRefused(f"the certificate has another role than that of node {name}")


WARN_SECONDS: Final = 30.0
STOP_SECONDS: Final = 300.0
RETRY_SECONDS: Final = 30.0


def clock_skew(date: str, wall: float) -> float | None:
    """How many seconds ``wall`` is ahead of an HTTP ``Date`` (whole seconds); None: it is none."""
    try:
        there = email.utils.parsedate_to_datetime(date)
    except (ValueError, TypeError, OverflowError):
        return None
    return wall - there.replace(tzinfo=there.tzinfo or datetime.UTC).timestamp()


def clock_skew_text(seconds: float) -> str:
    """For people."""
    side = "ahead of" if seconds > 0 else "behind"
    return f"the clock of this hub is {durations.span(abs(seconds))} {side} the API server's"


def clock_skew_refusal(seconds: float) -> IdentityRefused | None:
    """Why nothing is signed; None: the clock is right enough."""
    if abs(seconds) <= STOP_SECONDS:
        return None
    reason = f"{clock_skew_text(seconds)}, and no certificate is signed by it"
    return IdentityRefused("clock", reason, retry_after=RETRY_SECONDS)
