"""How a device gets its certificate and renews it, and learns whom to trust."""

from __future__ import annotations

import msgspec

from fairlead_wire.message.header import Epoch, Header, Id, Name, Seconds


class AskAuthorities(Header, frozen=True, kw_only=True, tag="authorities"):
    """Device: which authorities does the hub's certificate belong to?  It compares them with the pin of its token."""


class Authorities(Header, frozen=True, kw_only=True, tag="authorities"):
    """Hub: the authorities to trust from now on (content: PEM; in a session empty: as they are).

    In a session only to edges whose status says which they hold: others do not know this frame.
    """

    certificates: str = ""
    """PEM, in a session: what this hub shows now, its own first.  Who believes the new authorities must believe it."""
    renew_after_seconds: Seconds | None = None
    """Another authority signs nodes now: ask for a certificate after so long, unless it is due before."""


class Join(Header, frozen=True, kw_only=True, tag="join"):
    """Device: admit me with this token (content: certificate request, DER)."""

    token_id: Name
    secret: Name
    node: Name = ""
    """Empty: the node of the token."""
    agent: Name


class Late(Header, frozen=True, kw_only=True, tag="late"):
    """Device: my certificate ended while I was away; I can prove that its key is mine."""

    node: Name
    agent: Name
    store_epoch: Epoch
    """Of its last session."""
    fence: Epoch


class Challenge(Header, frozen=True, kw_only=True, tag="challenge"):
    """Hub: sign this."""

    nonce: Name
    """Hex of 32 random bytes."""


class Prove(Header, frozen=True, kw_only=True, tag="prove"):
    """Device: the answer to a challenge (content: JSON ``Proof``)."""


class Proof(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """``signature`` by the old key over ``fairlead-late/1``, 0, nonce, SHA-256 of the hub's certificate (DER), SHA-256
    of the request (DER)."""

    certificates: str
    """PEM: the old certificate, and its chain where it has one."""
    request: str
    """The certificate request, base64 of DER."""
    signature: str
    """Base64."""


class Renew(Header, frozen=True, kw_only=True, tag="renew"):
    """Edge, in a session: a new certificate for a new key (content: certificate request, DER)."""

    id: Id


class Issued(Header, frozen=True, kw_only=True, tag="issued"):
    """Hub: the answer to ``join``, ``prove`` (0) or ``renew`` (content: JSON ``IssuedCertificates``)."""

    parent_id: Id = msgspec.field(name="parentID", default=0)
    node: Name
    expires: Name
    """RFC 3339."""
    renew_after_seconds: Seconds | None = None


class IssuedCertificates(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """PEM each."""

    certificates: str
    """The node's, then what leads to the authority that the hub trusts."""
    authorities: str
    """Those of the hub's certificate."""
    issuers: str = ""
    """Those of nodes' certificates: by these, programs that connect to the node's agent verify it."""
