"""Presents, selects and pages objects for clients, and derives watch events.

``metadata.resourceVersion`` is the store's own version, so that lists and watches on this node are consistent; the
cluster's version is an annotation, together with the maximum age of the copy.
"""

from __future__ import annotations

import base64
import binascii
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from fairlead_edge.objects.metastore import HeldObject
from fairlead_edge.objects.presentation import selectors
from fairlead_edge.objects.presentation.api_requests import ApiError
from fairlead_edge.objects.watch_history import HistoryExpired, VersionedChange, WatchHistory

VERSION_ANNOTATION: Final = "fairlead.dev/resource-version"
AGE_ANNOTATION: Final = "fairlead.dev/age-seconds"
REPORT_ANNOTATION: Final = "fairlead.dev/status-report"
"""The state of a reported status: ``waiting``, ``written`` (the cluster has it), ``refused: code: reason``."""
LIMIT_MAX: Final = 10_000
CONTINUE_CHARS_MAX: Final = 2048
VERSION_DIGITS_MAX: Final = 19

Document = dict[str, Any]


def present(held: HeldObject, *, age_seconds: float, version: int | None = None) -> Document:
    """The object as clients get it; ``version`` replaces the object's own (for the version of a deletion)."""
    document = _document(held)
    metadata = document["metadata"]
    metadata["resourceVersion"] = str(held.local_version if version is None else version)
    annotations = metadata.get("annotations") or {}
    annotations[VERSION_ANNOTATION] = held.resource_version
    annotations[AGE_ANNOTATION] = str(max(0, round(age_seconds)))
    if held.report:
        annotations[REPORT_ANNOTATION] = held.report
    metadata["annotations"] = annotations
    return document


def _document(held: HeldObject) -> Document:
    """The delivered content with the status that programs on this node reported."""
    document: Document = msgspec.json.decode(held.content)
    if held.status and (status := msgspec.json.decode(held.status)):
        document["status"] = status
    return document


class ListSelection(msgspec.Struct, frozen=True, kw_only=True):
    """The selection of a list or watch; ``after`` continues a paged list after this (namespace, name)."""

    predicates: tuple[selectors.Predicate, ...] = ()
    limit: int = 0
    at_version: int | None = None
    after: tuple[str, str] | None = None

    def matches(self, held: HeldObject) -> bool:
        if not self.predicates:
            return True
        document = _document(held)
        return all(predicate(document) for predicate in self.predicates)


class ListScope(msgspec.Struct, frozen=True, kw_only=True):
    """The type, namespace (None: all) and selection of a list or watch.

    Objects stored at another version of the group are excluded, because they cannot be converted.
    """

    group: str
    version: str
    plural: str
    namespace: str | None
    selection: ListSelection

    def covers(self, held: HeldObject) -> bool:
        """Whether the object has this type and namespace."""
        at = held.resource
        same = (at.group, at.version, at.plural) == (self.group, self.version, self.plural)
        return same and self.namespace in (None, at.namespace)

    def sees(self, held: HeldObject | None) -> bool:
        """Whether the object is covered and selected."""
        return held is not None and self.covers(held) and self.selection.matches(held)


class ListPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of objects as of ``version``, and the token of the next page ("": this is the last)."""

    items: list[HeldObject]
    version: int
    continue_token: str = ""
    remaining: int | None = None
    """How many follow; None if unknown, because a selector would have to be applied to each."""
    is_last: bool = True
    """False: another page of the same response follows."""


class _Token(msgspec.Struct, frozen=True, array_like=True):
    version: int
    namespace: str
    name: str


def read_selection(query: Mapping[str, str], group: str, plural: str, *, name: str = "") -> ListSelection:
    """The selection in a query.  Raises ``ApiError`` 400."""
    fields = query.get("fieldSelector", "")
    if name:
        fields = f"metadata.name={name}" + (f",{fields}" if fields else "")
    predicates: list[selectors.Predicate] = []
    try:
        if query.get("labelSelector"):
            predicates.append(selectors.labels(query["labelSelector"]))
        if fields:
            predicates.append(selectors.fields(fields, group, plural))
    except selectors.BadSelector as error:
        raise ApiError(400, str(error)) from None
    limit = read_number(query, "limit") or 0
    token = _read_token(query["continue"]) if query.get("continue") else None
    exact = read_number(query, "resourceVersion") if query.get("resourceVersionMatch") == "Exact" else None
    return ListSelection(
        predicates=tuple(predicates),
        limit=min(limit, LIMIT_MAX),
        at_version=token.version if token else exact,
        after=(token.namespace, token.name) if token else None,
    )


def read_number(query: Mapping[str, str], key: str) -> int | None:
    """A non-negative decimal in the query; None if absent or empty.  Raises ``ApiError`` 400."""
    text = query.get(key, "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= VERSION_DIGITS_MAX):
        raise ApiError(400, f"{key}: must be a decimal number, not {text[:40]!r}")
    return int(text)


def page(
    held: Iterable[HeldObject],
    version: int,
    log: WatchHistory[HeldObject],
    scope: ListScope,
    *,
    through: tuple[str, str] | None = None,
) -> ListPage:
    """One page of ``held`` (of the scope's type and namespace, as of ``version``, ordered by namespace and name).

    ``held`` are all objects after the selection's ``after``, or those up to ``through``.  Raises ``HistoryExpired`` if
    the requested version cannot be reconstructed any more.
    """
    objects, selection = held, scope.selection
    if selection.at_version is not None and selection.at_version != version:
        objects = _rewound(held, selection.at_version, version, log, scope, through)
        version = selection.at_version
    after = selection.after
    rest = [each for each in objects if after is None or (each.resource.namespace, each.resource.name) > after]
    chosen = (each for each in rest if selection.matches(each))
    if not selection.limit:
        return ListPage(items=list(chosen), version=version)
    items = list(itertools.islice(chosen, selection.limit + 1))
    if len(items) < selection.limit or (len(items) == selection.limit and through is None):
        return ListPage(items=items, version=version)
    del items[selection.limit :]
    last = items[-1].resource
    token = _write_token(_Token(version, last.namespace, last.name))
    remaining = None if selection.predicates else len(rest) - len(items)
    return ListPage(items=items, version=version, continue_token=token, remaining=remaining)


def _rewound(
    held: Iterable[HeldObject],
    wanted: int,
    version: int,
    log: WatchHistory[HeldObject],
    scope: ListScope,
    through: tuple[str, str] | None,
) -> list[HeldObject]:
    """The objects at version ``wanted``: later changes are undone, newest first."""
    if wanted > version:
        raise HistoryExpired(f"version {wanted} is newer than {version}, the latest")
    by_key = {(each.resource.namespace, each.resource.name): each for each in held}
    for change in reversed(log.since(wanted)):
        at = change.subject.resource
        if change.version > version or (through is not None and (at.namespace, at.name) > through):
            continue
        if change.previous is not None and scope.covers(change.previous):
            by_key[at.namespace, at.name] = change.previous
        elif change.current is not None and scope.covers(change.current):
            by_key.pop((at.namespace, at.name), None)
    return [by_key[key] for key in sorted(by_key)]


# ---- watching ------------------------------------------------------------------------------------

EventType = Literal["ADDED", "MODIFIED", "DELETED"]


def events(change: VersionedChange[HeldObject], scope: ListScope) -> list[tuple[EventType, HeldObject]]:
    """The watch events of a change: leaving the selection is a deletion, entering it an addition."""
    before, after = scope.sees(change.previous), scope.sees(change.current)
    previous, current = change.previous, change.current
    if before and after:
        assert previous is not None and current is not None
        if previous.uid != current.uid:  # deleted and recreated with the same name
            return [("DELETED", previous), ("ADDED", current)]
        return [("MODIFIED", current)]
    if before:
        assert previous is not None
        return [("DELETED", previous)]
    if after:
        assert current is not None
        return [("ADDED", current)]
    return []


# ---- bodies --------------------------------------------------------------------------------------


def list_body(kind: str, api_version: str, items: Sequence[Document], found: ListPage) -> Document:
    """A Kubernetes list."""
    return {"kind": f"{kind}List", "apiVersion": api_version, "metadata": list_metadata(found), "items": list(items)}


def list_metadata(found: ListPage) -> Document:
    metadata: Document = {"resourceVersion": str(found.version)}
    if found.continue_token:
        metadata["continue"] = found.continue_token
        if found.remaining is not None:
            metadata["remainingItemCount"] = found.remaining
    return metadata


def bookmark(kind: str, api_version: str, version: int, *, initial_events_end: bool = False) -> Document:
    """The object of a BOOKMARK event: everything up to ``version`` was sent."""
    metadata: Document = {"resourceVersion": str(version), "creationTimestamp": None}
    if initial_events_end:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    return {"kind": kind, "apiVersion": api_version, "metadata": metadata}


def _write_token(token: _Token) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode()


def _read_token(text: str) -> _Token:
    try:
        if len(text) > CONTINUE_CHARS_MAX:
            raise ValueError("too long")
        return msgspec.json.decode(base64.urlsafe_b64decode(text), type=_Token)
    except (ValueError, binascii.Error, msgspec.DecodeError, RecursionError):
        raise ApiError(400, "continue: not a token from an earlier page") from None
