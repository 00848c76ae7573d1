"""Reads the API server's JSON so that an unreadable part affects nothing but itself.

    list       ─▶ Page: version, continue, the bytes of each object
    watch line ─▶ Event: type, the bytes of its object
    object      ─▶ Header, OwnObject, document: whatever can be read, even where the rest cannot

A decoder rejects a whole list if one object in it is nested too deep (the API server accepts any depth), so such text
is first split at its brackets.  Anything that is not a list, an event or an object raises ``Malformed``: a load
balancer's page, an empty or truncated answer, another document.  Errors never quote the answer: it may be a Secret.

``pack`` keeps tens of thousands of similar JSON bodies in little memory: bodies with the same keys share them, strings
are interned, and equal nested parts (such as the conditions of records written in the same second) are one object.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from sys import intern
from typing import Any

import msgspec

from fairlead_wire.errors import Malformed
from fairlead_wire.link import codec, peer_json
from fairlead_wire.link.peer_json import Decoded

_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*+"?|([\[{])|([\]}])', re.DOTALL)
_COLON = re.compile(rb"\s*:")


class ListChunk(msgspec.Struct, frozen=True, kw_only=True):
    """One chunk of a list."""

    version: str
    next: str
    """Token of the next chunk; empty for the last chunk."""
    items: list[msgspec.Raw]


class WatchEvent(msgspec.Struct, frozen=True):
    """One line of a watch."""

    type: str
    object: msgspec.Raw


class ObjectHeader(msgspec.Struct, kw_only=True, rename={"version": "resourceVersion"}):
    """The metadata of one object.  A field of the wrong type is treated as absent, and ``problem`` says so."""

    name: str
    uid: str = ""
    namespace: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    generation: int = 1
    version: str = ""
    problem: str = ""


class OwnObject(msgspec.Struct, frozen=True, kw_only=True):
    """A document written by the hub.  An unreadable spec or status counts as empty."""

    header: ObjectHeader
    spec: dict[str, Any]
    status: dict[str, Any]


class _ListMeta(msgspec.Struct, rename={"version": "resourceVersion", "next": "continue"}):
    version: str
    next: str = ""


class _Page(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None


class _Envelope(msgspec.Struct):
    type: str


class _Headed(msgspec.Struct):
    metadata: ObjectHeader


class _Versioned(msgspec.Struct):
    metadata: _ListMeta


class _Parts(msgspec.Struct):
    metadata: ObjectHeader
    spec: msgspec.Raw = msgspec.Raw(b"null")
    status: msgspec.Raw = msgspec.Raw(b"null")


_page = msgspec.json.Decoder(_Page)
_event = msgspec.json.Decoder(WatchEvent)
_envelope = msgspec.json.Decoder(_Envelope)
_headed = msgspec.json.Decoder(_Headed)
_versioned = msgspec.json.Decoder(_Versioned)
_parts = msgspec.json.Decoder(_Parts)
_any = msgspec.json.Decoder(Any)
TOO_DEEP = f"nested deeper than {codec.NESTING_MAX} levels"
_TEXTS = ("uid", "namespace", "resourceVersion")


def decode(decoder: msgspec.json.Decoder[Decoded], content: bytes | msgspec.Raw) -> Decoded:
    """Decode, raising ``Malformed`` with a description of what was received instead."""
    try:
        return peer_json.decode(decoder, bytes(content))
    except Malformed as error:
        raise Malformed(f"{_looks_like(bytes(content))}{error}") from None


def _looks_like(content: bytes) -> str:
    begins = content[:64].lstrip()
    if not begins:
        return "the answer is empty: "
    return "the answer is a web page: " if begins.startswith(b"<") else ""


def page(content: bytes) -> ListChunk:
    """Parse one chunk of a list.

    Raises ``Malformed`` if it has no version or items: it must not pass for an empty list.
    """
    try:
        found = decode(_page, content)
        items = found.items or []
    except Malformed:
        start, end = _container(content, b"items")
        if content[start : start + 1] != b"[":
            raise
        found = decode(_page, b"%bnull%b" % (content[:start], content[end:]))
        items = [msgspec.Raw(content[start + a : start + b]) for a, b in _elements(content[start:end])]
    if not found.metadata.version:
        raise Malformed("the answer is not a list: it has no resourceVersion")
    return ListChunk(version=found.metadata.version, next=found.metadata.next, items=items)


def event(line: bytes) -> WatchEvent:
    """Parse one line of a watch.  Raises ``Malformed``."""
    try:
        return decode(_event, line)
    except Malformed:
        start, end = _container(line, b"object")
        if not end:
            raise
        envelope = decode(_envelope, b"%bnull%b" % (line[:start], line[end:]))
        return WatchEvent(envelope.type, msgspec.Raw(line[start:end]))


def header(raw: bytes | msgspec.Raw) -> ObjectHeader:
    """Read an object's metadata.  Raises ``Malformed`` when not even the name can be read."""
    try:
        return decode(_headed, raw).metadata
    except Malformed:
        return header_of(document(raw)[0])


def header_of(body: dict[str, Any]) -> ObjectHeader:
    """Like ``header``, for an object that is already decoded."""
    metadata = body.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str) or not metadata["name"]:
        raise Malformed("an object without a name")
    try:
        return msgspec.convert(metadata, ObjectHeader)
    except msgspec.ValidationError as error:
        return _salvaged(metadata, f"metadata: {error}")


def version(raw: bytes | msgspec.Raw) -> str:
    """The resourceVersion of an object or a bookmark; empty if it cannot be read."""
    try:
        return decode(_versioned, raw).metadata.version
    except Malformed:
        try:
            return header(raw).version
        except Malformed:
            return ""


def own(raw: bytes | msgspec.Raw) -> OwnObject:
    """Read a document written by the hub.  Raises ``Malformed`` when not even the name can be read."""
    try:
        found = decode(_parts, raw)
        return OwnObject(header=found.metadata, spec=_table(found.spec), status=_table(found.status))
    except Malformed:
        body = document(raw)[0]
        spec, status = (each if isinstance(each, dict) else {} for each in (body.get("spec"), body.get("status")))
        return OwnObject(header=header_of(body), spec=spec, status=status)


def document(raw: bytes | msgspec.Raw) -> tuple[dict[str, Any], str]:
    """The decoded object, and why it is incomplete (parts nested too deep become null); empty if it is complete.

    Raises ``Malformed`` if it is not a JSON object.
    """
    content = bytes(raw)
    if codec.nesting(content) <= codec.NESTING_MAX:
        return _object(content), ""
    return _object(_shallow(content)), TOO_DEEP


def quick_document(raw: bytes | msgspec.Raw) -> tuple[dict[str, Any], str]:
    """The same, measured only where decoding fails: the whole of it may be nested as deep as a decoder gets."""
    try:
        return _object(bytes(raw)), ""
    except Malformed:
        return document(raw)


def _object(content: bytes) -> dict[str, Any]:
    body = decode(_any, content)
    if not isinstance(body, dict):
        raise Malformed("not a JSON object")
    return body


def _table(raw: msgspec.Raw) -> dict[str, Any]:
    try:
        return document(raw)[0]
    except Malformed:
        return {}


def _salvaged(metadata: dict[str, Any], problem: str) -> ObjectHeader:
    uid, namespace, version = (metadata[k] if isinstance(metadata.get(k), str) else "" for k in _TEXTS)
    generation = metadata.get("generation")
    return ObjectHeader(
        name=metadata["name"],
        uid=uid,
        namespace=namespace,
        labels=_texts(metadata.get("labels")),
        annotations=_texts(metadata.get("annotations")),
        generation=generation if isinstance(generation, int) else 1,
        version=version,
        problem=problem,
    )


def _texts(value: Any) -> dict[str, str]:
    return {k: v for k, v in value.items() if isinstance(v, str)} if isinstance(value, dict) else {}


# ---- brackets ------------------------------------------------------------------------------------


def _container(text: bytes, key: bytes) -> tuple[int, int]:
    """Start and end of the object or array under this key of the outermost object; (0, 0) if there is none."""
    depth = start = 0
    named = b""
    for found in _TOKENS.finditer(text):
        if found[1]:
            depth += 1
            if depth == 2 and named == key:
                start = found.start()
        elif found[2]:
            depth -= 1
            if depth == 1 and start:
                return start, found.end()
        elif depth == 1 and _COLON.match(text, found.end()):
            named = found[0][1:-1]
    return 0, 0


def _elements(text: bytes) -> Iterator[tuple[int, int]]:
    """Start and end of each object in an array."""
    depth = start = 0
    for found in _TOKENS.finditer(text):
        if found[1]:
            depth += 1
            if depth == 2:
                start = found.start()
        elif found[2]:
            depth -= 1
            if depth == 1:
                yield start, found.end()


def _shallow(text: bytes) -> bytes:
    """The same text with null in place of everything nested deeper than ``codec.NESTING_MAX``."""
    kept: list[bytes] = []
    depth = start = 0
    for found in _TOKENS.finditer(text):
        if found[1]:
            depth += 1
            if depth == codec.NESTING_MAX + 1:
                kept += text[start : found.start()], b"null"
        elif found[2]:
            depth -= 1
            if depth == codec.NESTING_MAX:
                start = found.end()
    return b"".join((*kept, text[start:]))


SHARED_MAX = 65_536
"""Nested parts kept for sharing.  When the table is full it is cleared, which costs memory, not correctness."""

Packed = Any

_shared: dict[Packed, Packed] = {}


class _Keys(tuple[str, ...]):
    """Type of the first item of a packed dict, which marks it as one."""

    __slots__ = ()


_shapes: dict[tuple[str, ...], _Keys] = {}
_TRUE, _FALSE = object(), object()
"""Stand-ins for booleans.  In Python ``1 == True``, so ``[1]`` would otherwise share ``[true]``."""


def pack(value: Any) -> Packed:
    """Pack a JSON value; the result is immutable and only meant for ``unpack``."""
    if isinstance(value, str):
        return intern(value)
    if isinstance(value, bool):
        return _TRUE if value else _FALSE
    if isinstance(value, dict):
        keys = tuple(value)
        shape = _shapes.get(keys)
        if shape is None:
            if len(_shapes) >= SHARED_MAX:
                _shapes.clear()
            shape = _shapes[keys] = _Keys(intern(key) for key in keys)
        return (shape, *(_nested(item) for item in value.values()))
    if isinstance(value, list):
        return (None, *(_nested(item) for item in value))
    return value


def unpack(packed: Packed) -> Any:
    """Rebuild the JSON value; the result is safe to modify."""
    if not isinstance(packed, tuple):
        return packed is _TRUE if packed in (_TRUE, _FALSE) else packed
    shape, *values = packed
    if shape is None:
        return [unpack(value) for value in values]
    return {key: unpack(value) for key, value in zip(shape, values, strict=True)}


def outline(packed: Packed) -> dict[str, Any]:
    """The scalar entries of a packed dict: cheaper than ``unpack`` where nothing else is needed."""
    if not isinstance(packed, tuple) or packed[0] is None:
        return {}
    return {key: unpack(item) for key, item in zip(packed[0], packed[1:], strict=True) if not isinstance(item, tuple)}


def _nested(value: Any) -> Packed:
    packed = pack(value)
    if not isinstance(packed, tuple):
        return packed
    if len(_shared) >= SHARED_MAX:
        _shared.clear()
    return _shared.setdefault(packed, packed)
