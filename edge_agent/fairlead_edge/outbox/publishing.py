"""What a producer may publish: turns the body of ``POST /v1/messages`` into messages to store, or refusals.

    bytes ─parse▶ submissions ─plan(router)▶ entries for the outbox + the answer

An unreadable request is refused as a whole (``RequestRefused``); in a readable one, each message is accepted or refused
by itself.  Everything is bounded before it is parsed.
"""

from __future__ import annotations

import base64
import binascii
import functools
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, Protocol

import msgspec

from fairlead_edge.outbox import envelope, outbox
from fairlead_edge.outbox.queues import QueueId
from fairlead_edge.outbox.router import Hold, RouteTarget
from fairlead_edge.routes.message import ENCODINGS, JSON_CONTENT_TYPE, RoutedMessage
from fairlead_wire.errors import Permanent
from fairlead_wire.link.codec import NESTING_MAX, nesting, without_lone_surrogates
from fairlead_wire.validation import json_body, mqtt_text

REQUEST_BYTES_MAX: Final = 8 * 1024 * 1024
REQUEST_MESSAGES_MAX: Final = 10_000
MESSAGE_BYTES_MAX: Final = 256 * 1024
"""Body and properties of one message as stored, as in the original."""
SOURCE_CHARS_MAX: Final = 1024
SOURCES_REMEMBERED: Final = 1024
"""How many sources caches hold; a node has a few dozen."""
KEY_CHARS_MAX: Final = 255

_SOURCE = re.compile(r"/(?:messages|twinChangeNotifications)(?:/[^/\x00-\x20\x7f]+)*", re.IGNORECASE | re.ASCII)
# The same rules for readers of /openapi.json, whose patterns have no flag to ignore case.
_SOURCE_SCHEMA: Final[dict[str, Any]] = {
    "maxLength": SOURCE_CHARS_MAX,
    "pattern": "^(|/("
    + "|".join("".join(f"[{c.upper()}{c.lower()}]" for c in word) for word in ("messages", "twinchangenotifications"))
    + r")(/[^/\x00-\x20\x7f]+)*)$",
    "description": "Required, unless the request presents a module's own token.",
    "examples": ["/messages/modules/camera/outputs/frames"],
}
_BASE64_SCHEMA: Final[dict[str, Any]] = {
    "pattern": "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
    "contentEncoding": "base64",
}
_JSON: Final[dict[str, str | None]] = {"contentType": JSON_CONTENT_TYPE, "contentEncoding": ENCODINGS[0]}
"""The system properties that a JSON body implies; shared by many messages, so never modified."""
_encode = msgspec.json.encode
_raw = msgspec.json.Decoder(msgspec.Raw)


class RequestRefused(Permanent):
    """The request is refused as a whole; ``too_large`` means that smaller requests may be accepted."""

    @property
    def too_large(self) -> bool:
        return self.code == "too_large"


class RefusalReason(msgspec.Struct, frozen=True):
    """Why a message is refused: a code for programs and a text for people."""

    code: str
    message: str


class Submission(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """One message as the producer sends it, with exactly one of ``body`` and ``bodyBase64``."""

    source: Annotated[str, msgspec.Meta(extra_json_schema=_SOURCE_SCHEMA)] = ""
    properties: dict[str, str | None] = {}
    system_properties: dict[str, str | None] = {}
    body: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    body_base64: Annotated[str, msgspec.Meta(extra_json_schema=_BASE64_SCHEMA)] | msgspec.UnsetType = msgspec.UNSET


class _Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    messages: list[msgspec.Raw]


class DeliveryView(msgspec.Struct, frozen=True):
    """Where a message went: ``ttl`` in seconds, null = forever."""

    endpoint: str
    priority: int
    ttl: float | None


class HeldForRoute(msgspec.Struct, frozen=True):
    """The refused route of an EdgeRoutes object for which a message is held, and what is wrong with it.

    Without a name, the object itself cannot be read.
    """

    route: str
    object: str
    reason: str


class Accepted(msgspec.Struct, frozen=True, omit_defaults=True):
    id: str
    deliveries: list[DeliveryView]
    held: HeldForRoute | None = None

    @property
    def is_stored(self) -> bool:
        """Whether it was stored; otherwise no route took it."""
        return bool(self.deliveries) or self.held is not None


class NotAccepted(msgspec.Struct, frozen=True):
    error: RefusalReason


class AcceptancePlan(msgspec.Struct, frozen=True, kw_only=True):
    """What to store and what to answer once it is stored."""

    entries: tuple[outbox.Entry, ...]
    results: tuple[Accepted | NotAccepted, ...]

    @property
    def no_route(self) -> int:
        """Messages that no route took."""
        return sum(isinstance(result, Accepted) and not result.is_stored for result in self.results)

    @property
    def held(self) -> int:
        """Messages that are held for a refused route."""
        return sum(isinstance(result, Accepted) and result.held is not None for result in self.results)

    @property
    def refusal(self) -> RefusalReason | None:
        """The first reason, if no message was accepted."""
        reasons = [result.error for result in self.results if isinstance(result, NotAccepted)]
        return reasons[0] if reasons and len(reasons) == len(self.results) else None

    def answer(self) -> bytes:
        """The body of the response."""
        if self.refusal is not None:
            return _encode({"error": self.refusal, "results": self.results})
        return _encode({"results": self.results})


class MessageRouter(Protocol):
    """Decides where messages go; ``router.Router`` is one."""

    def route(self, message: RoutedMessage, source: str) -> Sequence[RouteTarget]: ...
    def hold(self, message: RoutedMessage, source: str) -> Hold | None: ...


_request = msgspec.json.Decoder(_Request)
_submission = msgspec.json.Decoder(Submission)


def parse(content: bytes, *, default_source: str = "") -> list[Submission | RefusalReason]:
    """Read a request.  Raises ``RequestRefused``; a message that cannot be read becomes its ``RefusalReason``.

    Messages without a source get ``default_source``; if that is "", each must name one.
    """
    if len(content) > REQUEST_BYTES_MAX:
        raise RequestRefused(f"the request is over {REQUEST_BYTES_MAX} bytes", code="too_large")
    try:
        content.decode()  # the decoder below does not read the bodies, and they must be valid text, too
        raws = _raws(content)
    except UnicodeDecodeError as error:
        raise RequestRefused(
            f"the request is not UTF-8: {error.reason} at byte {error.start}", code="bad_request"
        ) from None
    except msgspec.DecodeError as error:
        reason = json_body.reason_of(content, _Request, error)
        raise RequestRefused(f"the request cannot be read: {reason}", code="bad_request") from None
    except RecursionError:
        raise RequestRefused(f"a message is nested deeper than {NESTING_MAX} levels", code="bad_request") from None
    if not raws:
        raise RequestRefused("messages: must not be empty", code="bad_request")
    if len(raws) > REQUEST_MESSAGES_MAX:
        raise RequestRefused(f"messages: at most {REQUEST_MESSAGES_MAX} in one request", code="too_large")
    return [_read(raw, default_source) for raw in raws]


def _raws(content: bytes) -> Sequence[bytes]:
    """The messages of a request, unread."""
    try:
        return _request.decode(content).messages
    except msgspec.DecodeError:
        readable = without_lone_surrogates(content)
        if readable == content:
            raise
    # Invalid text makes the decoder refuse everything around it; only the message that has it should be refused.
    found: list[bytes] = []
    at = 0
    for raw in _request.decode(readable).messages:
        at = readable.index(bytes(raw), at)
        found.append(content[at : at + len(raw)])
        at += len(raw)
    return found


def check_key(key: str) -> str:
    """An Idempotency-Key as it may be stored.  Raises ``RequestRefused``."""
    if not 0 < len(key) <= KEY_CHARS_MAX or not key.isprintable():
        raise RequestRefused(
            f"Idempotency-Key: must be 1 to {KEY_CHARS_MAX} printable characters", code="bad_idempotency_key"
        )
    return key


def digest(content: bytes) -> bytes:
    """Distinguishes a retry of the same request from another request under the same key."""
    return hashlib.sha256(content).digest()


def plan(
    submissions: Sequence[Submission | RefusalReason],
    router: MessageRouter,
    *,
    new_id: Callable[[], str],
    enqueued_at: str,
    mark: Callable[[str], bytes] = lambda id: b"",
    lane: Callable[[QueueId], QueueId] = lambda queue: queue,
) -> AcceptancePlan:
    """Route every message that is not refused.

    ``new_id`` gives each message its id, ``enqueued_at`` is RFC 3339 UTC; ``mark`` turns an id into the mark by which
    receipts find the message; ``lane`` chooses the queue within a priority.
    """
    entries: list[outbox.Entry] = []
    results: list[Accepted | NotAccepted] = []
    for submission in submissions:
        if isinstance(submission, RefusalReason):
            results.append(NotAccepted(submission))
            continue
        id = new_id()
        system_properties = _with_defaults(submission)
        message = envelope.StoredMessage(
            id=id,
            source=submission.source,
            enqueued_at=enqueued_at,
            properties=submission.properties,
            system_properties=system_properties,
            **_body_fields(submission, system_properties),
        )
        content = envelope.stored(message)
        if len(content) > MESSAGE_BYTES_MAX:
            reason = f"the message has {len(content)} bytes, the limit is {MESSAGE_BYTES_MAX}"
            results.append(NotAccepted(RefusalReason("too_large", reason)))
            continue
        routed = _routed(submission, system_properties)
        deliveries = router.route(routed, submission.source)
        hold = None if deliveries else router.hold(routed, submission.source)
        views = [DeliveryView(to.endpoint, to.priority, to.ttl_seconds) for to in deliveries]
        result = Accepted(id, views, None if hold is None else HeldForRoute(hold.route, hold.origin, hold.reason))
        results.append(result)
        if result.is_stored:
            references = (
                _references(deliveries, lane) if hold is None else (outbox.Reference(hold.queue, hold.ttl_seconds),)
            )
            entries.append(outbox.Entry(id, content, references, mark(id)))
    return AcceptancePlan(entries=tuple(entries), results=tuple(results))


def plan_again(
    items: Sequence[outbox.Item],
    router: MessageRouter,
    *,
    now: float,
    lane: Callable[[QueueId], QueueId] = lambda queue: queue,
) -> list[tuple[int, outbox.Entry | None]]:
    """Route messages that were held for a refused route: by offset, where each goes now; None if no route takes it.

    Messages that stay held are left out.  The time to live of a route counts from the message's acceptance.
    """
    found: list[tuple[int, outbox.Entry | None]] = []
    for item in items:
        stored = envelope.read(item.content)
        routed = _routed(stored, stored.system_properties)
        deliveries = router.route(routed, stored.source)
        if deliveries:
            references = tuple(_aged(each, now - item.enqueued) for each in _references(deliveries, lane))
            found.append((item.offset, outbox.Entry(stored.id, item.content, references)))
        elif router.hold(routed, stored.source) is None:
            found.append((item.offset, None))
    return found


def _references(deliveries: Sequence[RouteTarget], lane: Callable[[QueueId], QueueId]) -> tuple[outbox.Reference, ...]:
    return tuple(
        outbox.Reference(lane(QueueId(to.endpoint, to.priority)), to.ttl_seconds, to.topic, to.inherits)
        for to in deliveries
    )


def _aged(reference: outbox.Reference, age_seconds: float) -> outbox.Reference:
    """The reference of a message accepted ``age_seconds`` ago; an inherited time to live would begin only now."""
    if reference.ttl_seconds is None:
        return reference
    return msgspec.structs.replace(reference, ttl_seconds=max(0.0, reference.ttl_seconds - age_seconds), inherits="")


def shortened(plan: AcceptancePlan, ttl_seconds: Sequence[float | None]) -> AcceptancePlan:
    """The plan with each message's time to live limited to ``ttl_seconds``; None: as its routes say."""
    if not any(each is not None for each in ttl_seconds):
        return plan
    entries = iter(plan.entries)
    found: list[outbox.Entry] = []
    for result, most in zip(plan.results, ttl_seconds, strict=True):
        if isinstance(result, Accepted) and result.is_stored:
            found.append(_shortened(next(entries), most))
    return msgspec.structs.replace(plan, entries=tuple(found))


def _shortened(entry: outbox.Entry, most: float | None) -> outbox.Entry:
    if most is None or all(to.ttl_seconds is not None and to.ttl_seconds <= most for to in entry.references):
        return entry
    references = tuple(
        to
        if to.ttl_seconds is not None and to.ttl_seconds <= most
        else msgspec.structs.replace(to, ttl_seconds=most, inherits="")
        for to in entry.references
    )
    return msgspec.structs.replace(entry, references=references)


def routed(submission: Submission) -> RoutedMessage:
    """The message as routes see it: what the producer sent, and what that implies."""
    return _routed(submission, _with_defaults(submission))


def _routed(submission: Submission | envelope.StoredMessage, system_properties: dict[str, str | None]) -> RoutedMessage:
    return RoutedMessage(submission.properties, system_properties, _routable_body(submission, system_properties))


def source_wrong(source: str) -> RefusalReason | None:
    """Why a message may not have this source; None if it may."""
    if len(source) <= SOURCE_CHARS_MAX and _is_source(source):
        return None
    return RefusalReason(
        "bad_source",
        "source: must be /messages, /messages/modules/<module>, /messages/modules/<module>/outputs/<output>"
        f" or /twinChangeNotifications, at most {SOURCE_CHARS_MAX} characters, but is {source[:80]!r}",
    )


@functools.lru_cache(SOURCES_REMEMBERED)
def _is_source(source: str) -> bool:
    return _SOURCE.fullmatch(source) is not None


def may_be_json(system_properties: Mapping[str, str | None]) -> bool:
    """Whether these system properties allow the body to be JSON in UTF-8."""
    if not system_properties:
        return True
    said = {name.lower(): (value or "").lower() for name, value in system_properties.items()}
    is_json = said.get("contenttype", JSON_CONTENT_TYPE) == JSON_CONTENT_TYPE
    return is_json and said.get("contentencoding", ENCODINGS[0]) == ENCODINGS[0]


def is_json_text(content: bytes) -> bool:
    """Whether it is JSON in UTF-8, nested no deeper than every reader accepts."""
    try:
        content.decode()
        if nesting(content) > NESTING_MAX:
            return False
        _raw.decode(content)
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError):
        return False
    return True


def _read(raw: bytes, default_source: str) -> Submission | RefusalReason:
    if nesting(bytes(raw)) > NESTING_MAX:
        return RefusalReason("bad_message", f"the message is nested deeper than {NESTING_MAX} levels")
    try:
        submission = _submission.decode(raw)
    except msgspec.DecodeError as error:
        if without_lone_surrogates(bytes(raw)) != bytes(raw):
            reason = "a string has half of a surrogate pair (\\ud800 to \\udfff): send both halves or neither"
            return RefusalReason("bad_message", reason)
        return RefusalReason("bad_message", json_body.reason_of(bytes(raw), Submission, error))
    if default_source and not submission.source:
        submission = msgspec.structs.replace(submission, source=default_source)
    if (wrong := source_wrong(submission.source)) is not None:
        return wrong
    if text := mqtt_text.wrong_in(submission.properties, submission.system_properties):
        return RefusalReason("bad_message", text)
    if (submission.body is msgspec.UNSET) == (submission.body_base64 is msgspec.UNSET):
        return RefusalReason("bad_message", "give exactly one of body and bodyBase64")
    if isinstance(submission.body_base64, str):
        try:
            base64.b64decode(submission.body_base64, validate=True)
        except (binascii.Error, ValueError) as error:
            return RefusalReason("bad_body", f"bodyBase64: {error}")
    return submission


def _with_defaults(submission: Submission) -> dict[str, str | None]:
    """``body`` is JSON in UTF-8 unless the producer says otherwise; nothing is assumed about ``bodyBase64``."""
    given = submission.system_properties
    if submission.body is msgspec.UNSET:
        return given
    if not given:
        return _JSON
    names = {name.lower() for name in given}
    return {**given, **{name: value for name, value in _JSON.items() if name.lower() not in names}}


def _body_fields(submission: Submission, system_properties: dict[str, str | None]) -> dict[str, Any]:
    """A body sent as bytes is stored as JSON if its producer declares it as JSON and it is valid."""
    if not isinstance(submission.body_base64, str):
        return {"body": submission.body}
    properties = {name.lower(): (value or "").lower() for name, value in system_properties.items()}
    if properties.get("contenttype") == JSON_CONTENT_TYPE and properties.get("contentencoding") == ENCODINGS[0]:
        content = base64.b64decode(submission.body_base64)
        if is_json_text(content):
            return {"body": msgspec.Raw(content.strip())}
    return {"body_base64": submission.body_base64}


def _routable_body(
    submission: Submission | envelope.StoredMessage, system_properties: dict[str, str | None]
) -> bytes | str:
    if isinstance(submission.body_base64, str):
        return base64.b64decode(submission.body_base64)
    assert isinstance(submission.body, msgspec.Raw)
    content = bytes(submission.body)
    if system_properties is _JSON:
        return content
    encoding = next((value for name, value in system_properties.items() if name.lower() == "contentencoding"), None)
    # The text arrived as UTF-8, whatever encoding is declared: conditions get it decoded.
    return content if encoding == ENCODINGS[0] else content.decode()
