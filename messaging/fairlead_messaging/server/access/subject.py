"""Whose request it is: names of different kinds that can never be taken for each other.

    certificate ─┬ URI  spiffe://installation/workload     exactly one URI, as SPIFFE demands
                 └ name common name, or the first DNS name
    token       ─── serviceaccount:namespace:name          after the API server said so

A certificate whose common name reads ``serviceaccount:a:b`` or ``spiffe://…`` has a *name* that reads so, and no
entry for a ServiceAccount or a URI is about it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from fairlead_wire.io.tls import peer_name

Kind = Literal["certificate", "spiffe", "serviceaccount"]
NAME_CHARS_MAX: Final = 253
URI_CHARS_MAX: Final = 2048
"""As SPIFFE bounds an id."""

_SERVICE_ACCOUNT: Final = "serviceaccount:"
_SPIFFE: Final = "spiffe://"
_USER: Final = "system:serviceaccount:"
_DNS_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_ACCOUNT = re.compile(rf"({_DNS_LABEL}):({_DNS_LABEL}(?:\.{_DNS_LABEL})*)")
_SPIFFE_ID = re.compile(r"spiffe://[a-z0-9._-]{1,255}(?:/[A-Za-z0-9._-]+)+")
_NODE = re.compile(r"spiffe://[^/]*/node/.*", re.IGNORECASE | re.DOTALL)


class Subject(msgspec.Struct, frozen=True):
    """One name of one kind."""

    kind: Kind
    name: str

    def __str__(self) -> str:
        return f"{_SERVICE_ACCOUNT}{self.name}" if self.kind == "serviceaccount" else self.name

    @property
    def owner(self) -> str:
        """As transactions remember it, with its kind."""
        return f"{self.kind}:{self.name}"


class Identity(msgspec.Struct, frozen=True):
    """All names of one request; ``refused``: why it can have no grants, whatever the table says."""

    subjects: tuple[Subject, ...] = ()
    refused: str = ""

    def __str__(self) -> str:
        return str(self.subjects[0]) if self.subjects else "a certificate without a name"

    @property
    def owner(self) -> str:
        return self.subjects[0].owner if self.subjects else ""


def parse(text: str) -> Subject:
    """As ``[[access]] subject`` has it.  Raises ``ValueError`` with what would be right."""
    if text.startswith(_SERVICE_ACCOUNT):
        name = text.removeprefix(_SERVICE_ACCOUNT)
        if not _ACCOUNT.fullmatch(name):
            raise ValueError("must be serviceaccount:NAMESPACE:NAME, as Kubernetes writes both names")
        return Subject("serviceaccount", name)
    if text.startswith(_SPIFFE):
        if is_node(text):
            raise ValueError("is a node's: nodes publish through the hub, which knows the topics granted to each")
        if len(text) > URI_CHARS_MAX or not _SPIFFE_ID.fullmatch(text):
            raise ValueError("must be spiffe://trust-domain/path, the trust domain in lower case")
        return Subject("spiffe", text)
    if "*" in text:
        raise ValueError("must be one name: a * stands for no others here, write an entry for each")
    if not text or len(text) > NAME_CHARS_MAX or not text.isprintable() or text != text.strip():
        raise ValueError(f"must be a name in a certificate, of 1 to {NAME_CHARS_MAX} characters")
    return Subject("certificate", text)


def of_certificate(certificate: Mapping[str, Any]) -> Identity:
    """Of one that was checked against the authorities (``getpeercert()``)."""
    uris = [str(value) for kind, value in certificate.get("subjectAltName", ()) if kind == "URI"]
    name = peer_name(certificate)
    if any(is_node(uri) for uri in uris):
        # Whatever else it says: where one authority signs nodes and services, a node may be named like the hub.
        shown = next(uri for uri in uris if is_node(uri))
        refused = "a node publishes through the hub, which knows the topics granted to it"
        return Identity((Subject("spiffe", shown[:URI_CHARS_MAX]),), refused=refused)
    found = []
    if len(uris) == 1 and _SPIFFE_ID.fullmatch(uris[0]) and len(uris[0]) <= URI_CHARS_MAX:
        found.append(Subject("spiffe", uris[0]))
    if name and len(name) <= NAME_CHARS_MAX:
        found.append(Subject("certificate", name))
    return Identity(tuple(found))


def of_user(username: str) -> Subject | None:
    """Of a token the API server knows; None for users that are no ServiceAccount."""
    name = username.removeprefix(_USER)
    return Subject("serviceaccount", name) if name != username and _ACCOUNT.fullmatch(name) else None


def is_node(uri: str) -> bool:
    """Whether this is the URI of an edge node: ``spiffe://<installation>/node/<name>``."""
    return _NODE.fullmatch(uri) is not None
