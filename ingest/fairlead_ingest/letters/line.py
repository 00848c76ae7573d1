"""One dead letter as a line of JSON: what is exported, edited and read again.

    {"topic": "ns/a", "id": "0000…", "published_at": "…", "code": "misfit", "fields": ["t"], "error": "…",
     "payload": "{…}"}

``payload`` is the text as it was published; one that is no UTF-8 is ``payload_base64`` instead. A person who
edits a line may also write the message as an object, ``"payload": {"id": …}``. Of a line that is read again
``topic``, ``id`` and the payload count; the rest may be left out.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Any

import msgspec

LINE_BYTES_MAX = 64 * 1024 * 1024
_ID_CHARS_MAX = 200


class BadLine(ValueError):
    """``str()`` says what is wrong with the line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """A letter's payload as a person wants it."""

    topic: str
    id: str
    payload: bytes


class _Line(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    id: str
    payload: msgspec.Raw = msgspec.Raw(b"")
    payload_base64: str | None = None


_decode = msgspec.json.Decoder(_Line).decode
_decode_text = msgspec.json.Decoder(str).decode


def encode(letter: dict[str, Any]) -> bytes:
    """One line, its end included, of a row of the dead letters' table."""
    payload: bytes = letter["payload"] or b""
    plain: dict[str, Any] = {
        "topic": letter["_topic"],
        "id": letter["_id"],
        "published_at": letter["_published_at"],
        "code": letter.get("code"),
        "fields": letter.get("fields") or [],
        "error": letter.get("error"),
    }
    try:
        plain["payload"] = payload.decode()
    except UnicodeDecodeError:
        plain["payload_base64"] = base64.b64encode(payload).decode()
    return msgspec.json.encode(plain) + b"\n"


def decode(line: bytes) -> Edited:
    """Raises ``BadLine``."""
    try:
        found = _decode(line)
        text = bytes(found.payload)
        if (text == b"") == (found.payload_base64 is None):
            raise BadLine("give `payload` or `payload_base64`, and not both")
        if found.payload_base64 is not None:
            return Edited(topic=found.topic, id=found.id, payload=base64.b64decode(found.payload_base64, validate=True))
        if text[:1] == b"{":
            return Edited(topic=found.topic, id=found.id, payload=text)
        if text[:1] != b'"':
            raise BadLine("`payload` is a text or an object")
        return Edited(topic=found.topic, id=found.id, payload=_decode_text(text).encode())
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise BadLine(str(error)) from None
    except binascii.Error:
        raise BadLine("`payload_base64` is no base64") from None
