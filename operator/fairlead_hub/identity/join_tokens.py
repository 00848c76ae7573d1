"""JoinTokens as the watch reports them: which nodes each admits, and which it has admitted.

    JoinToken (JSON) ─read→ JoinTokenObject ─put→ JoinTokens ─┬─ of(id): read at each attempt, without the API server
                                                              ├─ key_owner(key): the node that was admitted with a key
                                                              └─ uses_of(node): earlier admissions of this name

The ``Use`` that is recorded before a certificate is signed determines the certificate: serial number and times.  So a
hub that stops half-way, or another that takes over, makes the same certificate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from fairlead_hub.wall_clock import WallClock

PATTERN_END = "*"
USED_BY_CHARS = 300
"""Limit of the names on one line; the first is included however long it is."""
NAME_CHARS_MAX = 253


class Use(msgspec.Struct, frozen=True, kw_only=True):
    """One admission.  Times are whole seconds since 1970."""

    node: str
    key_sha256: str
    serial: str
    """Hexadecimal.  With ``cert-manager`` the issuer chooses another one for the certificate."""
    time: int
    not_before: int
    not_after: int
    node_uid: str = ""
    """UID of the Node at that time; empty if there was none yet."""

    def document(self) -> dict[str, Any]:
        """The entry in ``status.uses``."""
        found = {
            "node": self.node, "keySHA256": self.key_sha256, "serial": self.serial,
            "time": WallClock.text_of(self.time), "notBefore": WallClock.text_of(self.not_before),
            "notAfter": WallClock.text_of(self.not_after),
        }  # fmt: skip
        return {**found, "nodeUID": self.node_uid} if self.node_uid else found


class JoinTokenObject(msgspec.Struct, frozen=True, kw_only=True):
    """One JoinToken of the cluster; either ``node`` or ``pattern`` is empty."""

    id: str
    version: str
    secret_sha256: str
    node: str
    pattern: str
    expires: int
    uses_max: int
    replace: bool
    pins: tuple[str, ...] = ()
    url: str = ""
    uses: tuple[Use, ...] = ()
    used_by: str = ""
    """The field of the status: ``names`` of ``uses``, once a hub has written it."""

    def covers(self, node: str) -> bool:
        if self.node:
            return node == self.node
        return self.pattern.endswith(PATTERN_END) and node.startswith(self.pattern.removesuffix(PATTERN_END))

    def use_of(self, node: str, key_sha256: str) -> Use | None:
        return next((use for use in self.uses if (use.node, use.key_sha256) == (node, key_sha256)), None)


def names(uses: Iterable[Use]) -> str:
    """The admitted nodes on one line: ``shop-1, shop-2 and 7 more``, each name once, in order."""
    found = list(dict.fromkeys(use.node for use in uses if use.node))
    shown, chars = 0, 0
    for name in found:
        chars += len(name) + len(", ")
        if shown and chars > USED_BY_CHARS:
            break
        shown += 1
    text = ", ".join(name[:NAME_CHARS_MAX] for name in found[:shown])
    return f"{text} and {len(found) - shown} more" if shown < len(found) else text


class UnreadableToken(ValueError):
    """A JoinToken that admits no node; the message says why."""


def read(name: str, version: str, spec: Mapping[str, Any], status: Mapping[str, Any]) -> JoinTokenObject:
    """Parse a JoinToken.

    Raises ``UnreadableToken``: an unreadable token admits none, even if an older definition accepted it.
    """
    secret, node, pattern = (_text(spec, key) for key in ("secretSHA256", "node", "pattern"))
    expires, uses = _moment(spec.get("expires")), spec.get("uses", 1)
    if len(secret) != 64 or bool(node) == bool(pattern) or not expires:
        raise UnreadableToken("secretSHA256, expires and one of node and pattern are required")
    if not isinstance(uses, int) or isinstance(uses, bool) or uses < 1:
        raise UnreadableToken("uses must be a whole number from 1")
    replace = spec.get("replace", False) is True
    if replace and not node:
        raise UnreadableToken("replace requires node: a token with a pattern must not revoke")
    return JoinTokenObject(
        id=name,
        version=version,
        secret_sha256=secret,
        node=node,
        pattern=pattern,
        expires=expires,
        uses_max=uses,
        replace=replace,
        pins=tuple(each for each in _list(status, "pins") if isinstance(each, str)),
        url=_text(status, "url"),
        uses=tuple(_uses(_list(status, "uses"))),
        used_by=_text(status, "usedBy"),
    )


def _uses(found: Sequence[Any]) -> Iterator[Use]:
    for each in found:
        if not isinstance(each, dict):
            each = {}
        time = _moment(each.get("time"))
        # An unreadable use counts all the same, or the token could be used again.
        yield Use(
            node=_text(each, "node"),
            key_sha256=_text(each, "keySHA256"),
            serial=_text(each, "serial"),
            time=time,
            not_before=_moment(each.get("notBefore")),
            not_after=_moment(each.get("notAfter")),
            node_uid=_text(each, "nodeUID"),
        )


def _text(found: Mapping[str, Any], key: str) -> str:
    value = found.get(key)
    return value if isinstance(value, str) else ""


def _list(found: Mapping[str, Any], key: str) -> list[Any]:
    value = found.get(key)
    return value if isinstance(value, list) else []


def _moment(value: Any) -> int:
    return WallClock.moment(value) if isinstance(value, str) else 0


class JoinTokens:
    """All JoinTokens by id."""

    def __init__(self) -> None:
        self._tokens: dict[str, JoinTokenObject] = {}
        self._keys: dict[str, dict[str, set[str]]] = {}
        """Hash of a key → the nodes it was admitted for → the tokens used."""
        self._nodes: dict[str, set[str]] = {}
        """Node → ids of the tokens that admitted it."""
        self.listed = False

    def put(self, token: JoinTokenObject) -> None:
        self.remove(token.id)
        self._tokens[token.id] = token
        for use in token.uses:
            self._keys.setdefault(use.key_sha256, {}).setdefault(use.node, set()).add(token.id)
            self._nodes.setdefault(use.node, set()).add(token.id)

    def remove(self, id: str) -> None:
        token = self._tokens.pop(id, None)
        for use in token.uses if token is not None else ():
            _discard(self._keys.get(use.key_sha256, {}), use.node, id)
            if not self._keys.get(use.key_sha256, True):
                del self._keys[use.key_sha256]
            _discard(self._nodes, use.node, id)

    def keep(self, ids: set[str]) -> None:
        """A list is complete: tokens that it does not name are gone."""
        for id in self._tokens.keys() - ids:
            self.remove(id)
        self.listed = True

    def of(self, id: str) -> JoinTokenObject | None:
        return self._tokens.get(id)

    def __iter__(self) -> Iterator[JoinTokenObject]:
        return iter(list(self._tokens.values()))

    def key_owner(self, key_sha256: str, node: str) -> str:
        """Another node that was admitted with this key; empty if there is none."""
        return next((each for each in self._keys.get(key_sha256, {}) if each != node), "")

    def uses_of(self, node: str) -> list[Use]:
        """All admissions of this name."""
        tokens = (self._tokens[id] for id in self._nodes.get(node, ()))
        return [use for token in tokens for use in token.uses if use.node == node]


def _discard(table: dict[str, set[str]], key: str, id: str) -> None:
    ids = table.get(key)
    if ids is not None:
        ids.discard(id)
        if not ids:
            del table[key]
