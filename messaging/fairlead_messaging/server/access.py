"""Access control: the names in certificates and tokens, and what the table of ``[[access]]`` grants them.

certificate, token ─→ Identity (Subjects) ─AccessTable→ Grants ─may(verb, topic)→ yes or no
Caller       a subject with its grants; commands on transactions carry it, because a transaction has an owner
TopicGlob    `*` stands for any characters of one part of namespace/name, never for the `/`
ReviewCache  the answers of the Kubernetes API about tokens

It has no clock and no sockets: ``io.token_reviewer`` asks the API server about tokens, and ``io.access_control`` asks
this module.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, Literal, Protocol

import msgspec

from fairlead_messaging.api.errors import Forbidden
from fairlead_messaging.api.verbs import Verb
from fairlead_wire.io.tls import peer_name

# --- Globs.
# Matching is linear in the length of the name, whatever the pattern: names come from requests, and a regular expression
# with many stars could take exponential time.

EVERYTHING: Final = "*"
"""Short for ``*/*``."""
PART_CHARS_MAX: Final = 200
"""The limit for names."""
_PART: Final = re.compile(rf"[A-Za-z0-9_*-]{{1,{PART_CHARS_MAX}}}")


class TopicGlob(msgspec.Struct, frozen=True):
    """A pattern for topics; ``excludes``: it began with ``!``."""

    namespace: str
    name: str
    excludes: bool = False

    def matches(self, namespace: str, name: str) -> bool:
        """Whether both parts match their halves; so no part of a name can stand for the slash."""
        return part_matches(self.namespace, namespace) and part_matches(self.name, name)


def parse_glob(text: str) -> TopicGlob:
    """Raises ``ValueError``, which says what a pattern must be."""
    excludes, pattern = text.startswith("!"), text.removeprefix("!")
    namespace, slash, name = ("*", "/", "*") if pattern == EVERYTHING else pattern.partition("/")
    if not slash or not _PART.fullmatch(namespace) or not _PART.fullmatch(name):
        raise ValueError(
            "must be namespace/name, where * stands for any characters of one part (default/*, */orders-*), or * for "
            "every topic; a leading ! excludes topics"
        )
    return TopicGlob(namespace, name, excludes)


def part_matches(pattern: str, text: str) -> bool:
    """``*`` matches any number of characters; all others match themselves, with their case."""
    first, *rest = pattern.split("*")
    if not rest:
        return pattern == text
    *middle, last = rest
    if not text.startswith(first) or len(text) < len(first) + len(last):
        return False
    at, end = len(first), len(text) - len(last)
    for piece in middle:
        found = text.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return text.endswith(last)


# --- Subjects.
#     certificate ─┬ URI  spiffe://installation/workload     exactly one URI, as SPIFFE demands
#                  └ name common name, or the first DNS name
#     token       ─── serviceaccount:namespace:name          after the API server confirmed it
# A certificate whose common name reads ``serviceaccount:a:b`` or ``spiffe://…`` has a *name* that reads so: no entry
# for a ServiceAccount or a URI applies to it.

Kind = Literal["certificate", "spiffe", "serviceaccount"]
NAME_CHARS_MAX: Final = 253
URI_CHARS_MAX: Final = 2048
"""The limit of SPIFFE for an id."""

_SERVICE_ACCOUNT: Final = "serviceaccount:"
_SPIFFE: Final = "spiffe://"
_USER: Final = "system:serviceaccount:"
_DNS_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_ACCOUNT = re.compile(rf"({_DNS_LABEL}):({_DNS_LABEL}(?:\.{_DNS_LABEL})*)")
_SPIFFE_ID = re.compile(r"spiffe://[a-z0-9._-]{1,255}(?:/[A-Za-z0-9._-]+)+")
_NODE = re.compile(r"spiffe://[^/]*/node/.*", re.IGNORECASE | re.DOTALL)


class Subject(msgspec.Struct, frozen=True):
    """A name of a certain kind."""

    kind: Kind
    name: str

    def __str__(self) -> str:
        return f"{_SERVICE_ACCOUNT}{self.name}" if self.kind == "serviceaccount" else self.name

    @property
    def owner(self) -> str:
        """The name and its kind, as transactions store it."""
        return f"{self.kind}:{self.name}"


class Identity(msgspec.Struct, frozen=True):
    """All names of a caller; ``refused``: why it has no grants, whatever the table says."""

    subjects: tuple[Subject, ...] = ()
    refused: str = ""

    def __str__(self) -> str:
        return str(self.subjects[0]) if self.subjects else "a certificate without a name"

    @property
    def owner(self) -> str:
        return self.subjects[0].owner if self.subjects else ""


def parse_subject(text: str) -> Subject:
    """Parse ``[[access]] subject``.  Raises ``ValueError``, which says what it must be."""
    if text.startswith(_SERVICE_ACCOUNT):
        name = text.removeprefix(_SERVICE_ACCOUNT)
        if not _ACCOUNT.fullmatch(name):
            raise ValueError("must be serviceaccount:NAMESPACE:NAME, as Kubernetes writes both names")
        return Subject("serviceaccount", name)
    if text.startswith(_SPIFFE):
        if is_node(text):
            raise ValueError("is a node: nodes publish through the hub, which knows the topics granted to each")
        if len(text) > URI_CHARS_MAX or not _SPIFFE_ID.fullmatch(text):
            raise ValueError("must be spiffe://trust-domain/path, the trust domain in lower case")
        return Subject("spiffe", text)
    if "*" in text:
        raise ValueError("must be one name: a * has no meaning here, write an entry for each name")
    if not text or len(text) > NAME_CHARS_MAX or not text.isprintable() or text != text.strip():
        raise ValueError(f"must be a name in a certificate, of 1 to {NAME_CHARS_MAX} characters")
    return Subject("certificate", text)


def identity_of_certificate(certificate: Mapping[str, Any]) -> Identity:
    """The names of a verified certificate (``getpeercert()``)."""
    uris = [str(value) for kind, value in certificate.get("subjectAltName", ()) if kind == "URI"]
    name = peer_name(certificate)
    if any(is_node(uri) for uri in uris):
        # Regardless of its other names: if one authority signs nodes and services, a node may be named like the hub.
        shown = next(uri for uri in uris if is_node(uri))
        refused = "a node publishes through the hub, which knows the topics granted to it"
        return Identity((Subject("spiffe", shown[:URI_CHARS_MAX]),), refused=refused)
    found = []
    if len(uris) == 1 and _SPIFFE_ID.fullmatch(uris[0]) and len(uris[0]) <= URI_CHARS_MAX:
        found.append(Subject("spiffe", uris[0]))
    if name and len(name) <= NAME_CHARS_MAX:
        found.append(Subject("certificate", name))
    return Identity(tuple(found))


def account_of_user(username: str) -> Subject | None:
    """The subject of a user name from the API server; None for users that are not ServiceAccounts."""
    name = username.removeprefix(_USER)
    return Subject("serviceaccount", name) if name != username and _ACCOUNT.fullmatch(name) else None


def is_node(uri: str) -> bool:
    """Whether this is the URI of an edge node: ``spiffe://<installation>/node/<name>``."""
    return _NODE.fullmatch(uri) is not None


# --- Grants.
# Entries for one subject add up. Within one entry a topic excluded by ``!`` is not granted, in whatever order the
# patterns stand.

IDENTITIES_KEPT: Final = 1024


class AccessEntry(msgspec.Struct, frozen=True):
    """An ``[[access]]`` entry."""

    subject: Subject
    verbs: frozenset[Verb]
    topics: tuple[TopicGlob, ...]

    def grants(self, verb: Verb, namespace: str, name: str) -> bool:
        if verb not in self.verbs and not (verb is Verb.CREATE and Verb.ADMINISTER in self.verbs):
            return False
        matching = [each for each in self.topics if each.matches(namespace, name)]
        return bool(matching) and not any(each.excludes for each in matching)

    @property
    def is_for_every_topic(self) -> bool:
        everything = parse_glob(EVERYTHING)
        return everything in self.topics and not any(each.excludes for each in self.topics)


class Grants(msgspec.Struct, frozen=True):
    """The entries that apply to one identity."""

    entries: tuple[AccessEntry, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.entries)

    def may(self, verb: Verb, namespace: str, name: str) -> bool:
        return any(each.grants(verb, namespace, name) for each in self.entries)

    def may_some(self, verb: Verb) -> bool:
        """Whether it may do this on any topic, as is needed to begin a transaction, which names no topic."""
        return any(verb in each.verbs for each in self.entries)

    def sees(self, namespace: str, name: str) -> bool:
        """Whether it may see this topic: any verb is enough."""
        return any(self.may(verb, namespace, name) for verb in Verb)

    def may_everywhere(self, verb: Verb) -> bool:
        """Whether it may do this on every possible topic."""
        return any(verb in each.verbs and each.is_for_every_topic for each in self.entries)


class AccessTable:
    """By subject."""

    def __init__(self, entries: Iterable[AccessEntry]) -> None:
        self._entries = tuple(entries)
        self._of = lru_cache(IDENTITIES_KEPT)(self._find)

    def of(self, identity: Identity) -> Grants:
        """The grants of all names of this identity together."""
        return self._of(identity)

    def _find(self, identity: Identity) -> Grants:
        if identity.refused:
            return Grants()
        return Grants(tuple(each for each in self._entries if each.subject in identity.subjects))


# --- Callers.


class _Touched(Protocol):
    namespace: str
    name: str


class Caller(msgspec.Struct, frozen=True):
    """A subject with its grants; None if there is no table, and then everything is granted."""

    shown: str = ""
    owner: str = ""
    grants: Grants | None = None

    def may(self, verb: Verb, namespace: str, name: str) -> bool:
        return self.grants is None or self.grants.may(verb, namespace, name)

    def sees(self, namespace: str, name: str) -> bool:
        return self.grants is None or self.grants.sees(namespace, name)

    def owns(self, owner: str) -> bool:
        """Whether it owns what ``owner`` began; a transaction begun without an access table belongs to everyone."""
        return self.grants is None or not owner or owner == self.owner

    def may_administer_all(self, touched: Iterable[_Touched]) -> bool:
        """Whether it may administer every topic that a transaction touched; every possible topic if it touched none."""
        if self.grants is None:
            return True
        each = list(touched)
        if not each:
            return self.grants.may_everywhere(Verb.ADMINISTER)
        return all(self.grants.may(Verb.ADMINISTER, topic.namespace, topic.name) for topic in each)


UNRESTRICTED = Caller()
"""The service itself, and every caller if there is no table."""
UNIDENTIFIED = Caller(grants=Grants())
"""A caller without grants."""


def check_owner(caller: Caller, pointer: int, owner: str) -> None:
    """Check a call that extends a transaction: publish, store, roll back, renew, commit.  Raises: Forbidden."""
    if not caller.owns(owner):
        raise Forbidden(f"{caller.shown} did not begin transaction {pointer}: only the subject that did may use it")


def check_may_end(caller: Caller, pointer: int, owner: str, touched: Iterable[_Touched]) -> None:
    """Check a call that ends a transaction: abort, invalidate.  Raises: Forbidden."""
    if not caller.owns(owner) and not caller.may_administer_all(touched):
        raise Forbidden(
            f"{caller.shown} did not begin transaction {pointer} and may not administer every topic that it touched: "
            "one of the two is needed to end it"
        )


# --- Reviews of tokens by the Kubernetes API: they count for a minute, or ten while the API is away.
# A digest is kept in place of a token, so neither memory dumps nor comparisons reveal one. Times are seconds of a
# monotonic clock, except ``ends``: when the token itself expires, a Unix time.

FRESH_SECONDS: Final = 60.0
AWAY_SECONDS: Final = 600.0
REFUSED_SECONDS: Final = 10.0
"""How long a refused token is not reviewed again; it may become valid later if clocks differ."""
REVIEWS_MAX: Final = 4096
TOKEN_CHARS_MAX: Final = 8192
"""Tokens of Kubernetes have about 1,000 characters."""


class Review(msgspec.Struct, frozen=True):
    """A review; ``account`` is None if the token is not valid for this service."""

    account: Subject | None
    at: float
    ends: float

    def holds(self, now: float, wall: float, *, away: bool) -> bool:
        if self.account is None:
            return now - self.at < REFUSED_SECONDS
        return now - self.at < (AWAY_SECONDS if away else FRESH_SECONDS) and wall < self.ends


class ReviewCache:
    """Reviews by digest; beyond ``reviews_max`` of valid or of refused tokens the least recently used is evicted."""

    def __init__(self, reviews_max: int = REVIEWS_MAX) -> None:
        self._max = reviews_max
        self._good: OrderedDict[bytes, Review] = OrderedDict()
        self._refused: OrderedDict[bytes, Review] = OrderedDict()

    def __len__(self) -> int:
        return len(self._good) + len(self._refused)

    def get(self, key: bytes, now: float, wall: float, *, away: bool = False) -> Review | None:
        """The review, if it is still valid.  ``away``: the API server does not answer, so an older review counts."""
        for table in (self._good, self._refused):
            found = table.get(key)
            if found is not None and found.holds(now, wall, away=away):
                table.move_to_end(key)
                return found
        return None

    def put(self, key: bytes, review: Review) -> None:
        """Keep a review; a flood of invalid tokens evicts no valid one."""
        self._good.pop(key, None)
        self._refused.pop(key, None)
        table = self._good if review.account is not None else self._refused
        table[key] = review
        if len(table) > self._max:
            table.popitem(last=False)


def token_digest(token: str) -> bytes:
    """The key under which a review is cached."""
    return hashlib.sha256(token.encode()).digest()


def looks_like_token(token: str) -> bool:
    """Whether it can be a token: three parts of base64url, like every token of a ServiceAccount."""
    parts = token.split(".")
    return len(token) <= TOKEN_CHARS_MAX and len(parts) == 3 and all(map(_is_base64url, parts))


def token_end(token: str) -> float:
    """When a valid token expires (a Unix time); infinity if it has no such claim."""
    payload = token.split(".")[1]
    try:
        said = msgspec.json.decode(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)), type=_Claims).exp
    except (ValueError, RecursionError):
        return float("inf")
    return float(said) if said is not None else float("inf")


class _Claims(msgspec.Struct):
    exp: float | None = None


def _is_base64url(text: str) -> bool:
    return bool(text) and text.isascii() and text.replace("-", "").replace("_", "").isalnum()
