"""A request to send messages to a module's input: parsed into submissions, or refused with a reason.

    {"body": …} or {"messages": [{"body": …}, …]} ─parse▶ Submission each ─kept▶ what messaging stores of it
                                                                              └─read▶ Kept, to be delivered

Bodies, properties and system properties are those of the edge's ``POST /v1/messages``.  All input is limited before it
is parsed.  ``InputOutcomes`` holds the latest states this hub has seen; messaging and the node know the others.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable
from typing import Annotated, Any, Final, Literal

import msgspec

from fairlead_wire import message
from fairlead_wire.errors import Malformed, Permanent
from fairlead_wire.link import codec
from fairlead_wire.validation import json_body, mqtt_text

REQUEST_BYTES_MAX: Final = 1024 * 1024
REQUEST_MESSAGES_MAX: Final = 100
TTL_SECONDS_DEFAULT: Final = 3600
KEY_CHARS_MAX: Final = 255
SOURCE: Final = "/fairlead/cloud"
"""The sender of every message sent this way, in the property where a module reads it."""
ID_CHARS: Final = 32
_NAME: Final = re.compile(message.INPUT_NAME)
_JSON: Final = {"contentType": "application/json", "contentEncoding": "utf-8"}
_ROOM: Final = 512
"""Size of ids and times beside the message in messaging."""

Ttl = Annotated[float, msgspec.Meta(gt=0, le=message.INPUT_TTL_SECONDS_MAX)]
_TTL_SCHEMA: Final[dict[str, Any]] = {"description": "Seconds until the message expires. Default: 3600."}


class InputRefused(Permanent):
    """The request is refused with this ``code``."""


class InputSubmission(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """One message as the caller sends it, with exactly one of ``body`` and ``bodyBase64``."""

    properties: dict[str, str | None] = {}
    system_properties: dict[str, str | None] = {}
    body: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    body_base64: str | msgspec.UnsetType = msgspec.UNSET
    ttl: Annotated[Ttl, msgspec.Meta(extra_json_schema=_TTL_SCHEMA)] | None = None


class Submissions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Several messages at once; all or none are accepted."""

    messages: Annotated[list[msgspec.Raw], msgspec.Meta(min_length=1)]


class _ReadSubmissions(Submissions, frozen=True, kw_only=True):
    """The same with the messages read, to find what is wrong in one of them."""

    messages: list[InputSubmission]  # type: ignore[assignment]


class SendRequest(InputSubmission, frozen=True, kw_only=True):
    """One message, or only ``messages``: the two forms of a request, for readers of /openapi.json."""

    messages: Annotated[list[InputSubmission], msgspec.Meta(min_length=1, max_length=REQUEST_MESSAGES_MAX)] | None = (
        None
    )


class _Stored(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The form in which the edge stores it (its ``envelope.StoredMessage``)."""

    id: str
    source: str
    enqueued_at: str
    properties: dict[str, str | None]
    system_properties: dict[str, str | None]
    body: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    body_base64: str | msgspec.UnsetType = msgspec.UNSET


class StoredInput(msgspec.Struct, frozen=True, kw_only=True):
    """The form in messaging; ``expires`` is seconds since 1970, ``message`` what the edge stores."""

    id: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{32}\Z")]
    node: str
    uid: str
    """UID of the Node it was sent to; another Node with its name does not receive it."""
    module: Annotated[str, msgspec.Meta(pattern=message.INPUT_NAME, max_length=message.INPUT_NAME_CHARS_MAX)]
    input: Annotated[str, msgspec.Meta(pattern=message.INPUT_NAME, max_length=message.INPUT_NAME_CHARS_MAX)]
    expires: Annotated[float, msgspec.Meta(ge=0, le=1e12)]
    message: msgspec.Raw


_many = msgspec.json.Decoder(Submissions)
_one = msgspec.json.Decoder(InputSubmission)
_kept = msgspec.json.Decoder(StoredInput)
_keys = msgspec.json.Decoder(dict[str, msgspec.Raw])
_encode = msgspec.json.encode


def check_names(module: str, input: str) -> None:
    """Raises ``InputRefused`` if no module or input can have this name."""
    for what, name in (("module", module), ("input", input)):
        if len(name) > message.INPUT_NAME_CHARS_MAX or not _NAME.match(name):
            longest = message.INPUT_NAME_CHARS_MAX
            reason = f"{what}: 1 to {longest} letters, digits, '.', '_' and '-', a letter or digit first"
            raise InputRefused(reason, code="bad_input")


def parse(content: bytes) -> list[InputSubmission]:
    """Parse a request.  Raises ``InputRefused``; then none of its messages is accepted."""
    if len(content) > REQUEST_BYTES_MAX:
        raise InputRefused(f"the request exceeds {REQUEST_BYTES_MAX} bytes", code="too_large")
    if codec.nesting(content) > codec.NESTING_MAX:
        raise InputRefused(f"the request is nested deeper than {codec.NESTING_MAX} levels", code="bad_request")
    try:
        content.decode()
        is_many = "messages" in _keys.decode(content)
        raws = _many.decode(content).messages if is_many else [msgspec.Raw(content)]
        if len(raws) > REQUEST_MESSAGES_MAX:
            raise InputRefused(f"messages: at most {REQUEST_MESSAGES_MAX} in one request", code="too_large")
        return [_checked(_one.decode(raw)) for raw in raws]
    except UnicodeDecodeError as error:
        raise InputRefused(
            f"the request is not UTF-8: {error.reason} at byte {error.start}", code="bad_request"
        ) from None
    except (msgspec.DecodeError, RecursionError) as error:
        why = json_body.reason_of(content, _ReadSubmissions if b'"messages"' in content else InputSubmission, error)
        if codec.without_lone_surrogates(content) != content:
            why = "a string contains half of a surrogate pair (\\ud800 to \\udfff): send both halves or none"
        raise InputRefused(f"the request cannot be read: {why}", code="bad_request") from None


def _checked(found: InputSubmission) -> InputSubmission:
    if (found.body is msgspec.UNSET) == (found.body_base64 is msgspec.UNSET):
        raise InputRefused("give exactly one of body and bodyBase64", code="bad_message")
    if isinstance(found.body_base64, str):
        try:
            base64.b64decode(found.body_base64, validate=True)
        except (binascii.Error, ValueError) as error:
            raise InputRefused(f"bodyBase64: {error}", code="bad_message") from None
    if wrong := mqtt_text.wrong_in(found.properties, found.system_properties):
        raise InputRefused(wrong, code="bad_message")
    return found


def ids(node: str, module: str, input: str, key: str | None, count: int, new_id: Callable[[], str]) -> list[str]:
    """The ids of a request's messages; with the same Idempotency-Key always the same.

    Raises ``InputRefused`` for an invalid key.
    """
    if key is None:
        return [new_id() for _ in range(count)]
    if not 0 < len(key) <= KEY_CHARS_MAX or not key.isprintable():
        reason = f"Idempotency-Key: must be 1 to {KEY_CHARS_MAX} printable characters"
        raise InputRefused(reason, code="bad_idempotency_key")
    named = (hashlib.sha256(_encode([node, module, input, key, index])) for index in range(count))
    return [each.hexdigest()[:ID_CHARS] for each in named]


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """The destination: a Node by name and UID, and an input of a module there."""

    node: str
    uid: str
    module: str
    input: str


def kept(found: InputSubmission, to: Address, *, id: str, ttl: float, now: float, at: str) -> StoredInput:
    """``now`` is seconds since 1970, ``at`` the same as RFC 3339.

    Raises ``InputRefused`` if the message is too large.
    """
    system = found.system_properties
    if found.body is not msgspec.UNSET:
        named = {name.lower() for name in system}
        system = {**system, **{name: value for name, value in _JSON.items() if name.lower() not in named}}
    stored = _encode(
        _Stored(
            id=id,
            source=SOURCE,
            enqueued_at=at,
            properties=found.properties,
            system_properties=system,
            body=found.body,
            body_base64=found.body_base64,
        )
    )
    if len(stored) > message.INPUT_BYTES_MAX:
        reason = f"the message has {len(stored)} bytes, the limit is {message.INPUT_BYTES_MAX}"
        raise InputRefused(reason, code="too_large")
    expires = now + (found.ttl if found.ttl is not None else ttl)
    return StoredInput(id=id, **msgspec.structs.asdict(to), expires=expires, message=msgspec.Raw(stored))


def encode(found: StoredInput) -> bytes:
    """Encode a message for messaging."""
    return _encode(found)


def read(payload: bytes, node: str) -> StoredInput:
    """Decode a message from messaging.  Raises ``Malformed`` for data that no hub wrote for this node."""
    if len(payload) > message.INPUT_BYTES_MAX + 4 * message.INPUT_NAME_CHARS_MAX + _ROOM:
        raise Malformed(f"{len(payload)} bytes are not a message for a module")
    try:
        found = _kept.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(str(error)) from None
    if found.node != node or len(found.message) > message.INPUT_BYTES_MAX:
        raise Malformed("it is for another node, or too large")
    return found


KEPT_MAX = 20_000
State = Literal["accepted", "refused"] | message.InputState
FINAL: frozenset[State] = frozenset(("consumed", "expired", "evicted", "dead_lettered", "refused"))
"""Final states."""

MAY_BE_THERE = "the node did not answer before the message expired; it may have received it"
"""For ``expired``: the node knows better."""


class InputOutcomes:
    """The latest ``KEPT_MAX`` states."""

    def __init__(self) -> None:
        self._states: dict[tuple[str, str], tuple[State, str]] = {}

    def note(self, node: str, id: str, state: State, reason: str = "") -> None:
        """The message has this state from now on."""
        self._states.pop((node, id), None)
        self._states[node, id] = (state, reason)
        while len(self._states) > KEPT_MAX:
            del self._states[next(iter(self._states))]

    def begin_again(self, node: str, id: str) -> None:
        """The message is sent again, so a final state no longer applies."""
        found = self._states.get((node, id))
        if found is not None and found[0] in FINAL:
            del self._states[node, id]

    def of(self, node: str, id: str) -> tuple[State, str] | None:
        """The state and its reason; None if it is not known here (any more)."""
        return self._states.get((node, id))
