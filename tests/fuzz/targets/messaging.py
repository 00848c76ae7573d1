"""Bodies and queries of the messaging service, and what a service answers its clients."""

from __future__ import annotations

import base64
from collections.abc import Callable
from urllib.parse import parse_qsl

import msgspec
from tests.fuzz.target import Target, promise

from fairlead_messaging.api import message_id, requests, responses
from fairlead_messaging.api.errors import Refused
from fairlead_messaging.client import errors
from fairlead_messaging.client.request import Response, read_arrow_page
from fairlead_messaging.server import avro, json_bodies, validation
from fairlead_messaging.server.log import topic
from fairlead_messaging.server.log.topic import TopicGeneration
from fairlead_messaging.server.subscriptions import subscription
from fairlead_messaging.server.transactions import visibility
from fairlead_wire import delivery_policy
from fairlead_wire.backoff import retry_after_seconds
from fairlead_wire.errors import RemoteError
from fairlead_wire.validation.mistakes import Wrong

BYTES_MAX = 1 << 20
"""What the service has for one body; a small one, so that limits are met."""


def publish(content: bytes) -> None:
    _published(json_bodies.publish_body(content, BYTES_MAX))


def _published(asked: requests.PublishRequest) -> None:
    found = validation.messages(asked)
    producer = validation.producer(asked)
    if producer is not None:
        promise(len(producer.sequences) == len(found), "one number for each message")
        promise(all(0 <= each < 2**63 for each in producer.sequences), "that fits its column")
    validation.check_size(len(found), BYTES_MAX)


def _poll(asked: requests.PollRequest) -> None:
    start = validation.start(asked)
    promise(len(start) == message_id.ID_BYTES, "a start is an id")
    promise(1 <= validation.limit(asked.limit, 1000) <= 1000, "a page has a limit")
    promise(0 <= validation.wait_ms(asked.wait_ms) <= requests.WAIT_MS_MAX, "and a wait")
    if asked.transaction is not None:
        _snapshot(asked.transaction)


def _snapshot(raw: bytes) -> None:
    found = visibility.decode_snapshot(raw)
    promise(visibility.decode_snapshot(found.encode()) == found, "a snapshot is read as it is written")


def _arrow_poll(raw: bytes) -> None:
    asked = json_bodies.decode(raw, requests.ArrowPollRequest)
    validation.bound(asked.after, message_id.FIRST)
    validation.limit(asked.limit_rows, requests.LIMIT_MAX)


def _plan(raw: bytes) -> None:
    asked = json_bodies.decode(raw, requests.PlanRequest)
    validation.splits(asked.splits)
    validation.wait_ms(asked.wait_ms)


def _rollback(raw: bytes) -> None:
    first, last = validation.rollback_range(json_bodies.decode(raw, requests.RollbackDetail))
    first.encode(), last.encode()


def _start(raw: bytes) -> None:
    validation.timeout(json_bodies.decode(raw, requests.StartRequest).timeout, 600.0)


def _commit(raw: bytes) -> None:
    validation.changes(json_bodies.decode(raw, requests.CommitRequest).changes)


def _reader(raw: bytes) -> None:
    json_bodies.decode(raw, requests.NoteReaderRequest)


def _properties(raw: bytes) -> None:
    """Kept as it is shown, and shown as it is kept."""
    found = topic.parse_properties(json_bodies.decode_properties(raw), 3600)
    made = TopicGeneration(
        namespace="a",
        name="b",
        generation=1,
        ttl_seconds=found.ttl_seconds,
        properties=found.texts,
        delivery=found.delivery,
    )
    promise(topic.decode("a", "b", topic.encode(made)) == made, "a topic is read as it is written")
    promise(made.hold_up_seconds_max is None or made.hold_up_seconds_max > 0, "a limit is above nothing")
    _ = made.policy, made.shown_properties()


def _subscription(raw: bytes) -> None:
    found = subscription.parse(json_bodies.decode(raw, object))
    promise(subscription.decode(subscription.encode(found)) == found, "a subscription is read as it is written")
    _ = found.policy


_KINDS: dict[bytes, Callable[[bytes], None]] = {
    b"poll": lambda raw: _poll(json_bodies.decode(raw, requests.PollRequest)),
    b"arrow": _arrow_poll,
    b"plan": _plan,
    b"rollback": _rollback,
    b"start": _start,
    b"commit": _commit,
    b"reader": _reader,
    b"properties": _properties,
    b"subscription": _subscription,
}


def body(content: bytes) -> None:
    """The first line says which body it is."""
    kind, _, raw = content.partition(b"\n")
    _KINDS.get(kind, _KINDS[b"poll"])(raw)


def avro_publish(content: bytes) -> None:
    """The first line is the query."""
    query, _, raw = content.partition(b"\n")
    _published(avro.publish_body(raw, dict(parse_qsl(query.decode("latin-1"))), BYTES_MAX))


def avro_poll(content: bytes) -> None:
    query, _, raw = content.partition(b"\n")
    _poll(avro.poll_body(raw, dict(parse_qsl(query.decode("latin-1")))))


def avro_rollback(content: bytes) -> None:
    detail = avro.rollback_body(content)
    promise(avro.rollback_body(avro.encode_rollback(detail)) == detail, "it is read as it is written")
    validation.rollback_range(detail)


def query(content: bytes) -> None:
    asked = dict(parse_qsl(content.decode("latin-1"), keep_blank_values=True))
    for kind in (requests.TransactionsQuery, requests.InspectQuery, requests.OffsetsQuery):
        try:
            msgspec.convert(asked, kind, strict=False)
        except msgspec.ValidationError:
            continue
    for text in asked.values():
        try:
            promise(validation.whole(text, "ts") >= 0, "a whole number")
        except Refused:
            pass
        found = message_id.parse_hex(text)
        promise(found.hex() == text.lower(), "an id is written as it is read")
        promise(message_id.before(found) <= found, "and has one before it")


def policy(content: bytes) -> None:
    given = msgspec.json.decode(content)
    found = delivery_policy.parse(given)
    again = delivery_policy.parse(msgspec.to_builtins(found))
    promise(again == found, "a delivery policy is read as it is written")


def push_endpoint(content: bytes) -> None:
    """The address of an endpoint, and what it answers."""
    text = content.decode(errors="surrogateescape")
    subscription.is_endpoint_url(text)
    seconds = retry_after_seconds(text, subscription.RETRY_AFTER_SECONDS_MAX)
    promise(seconds is None or 0 <= seconds <= subscription.RETRY_AFTER_SECONDS_MAX, "an endpoint cannot ask for ever")


_ANSWERS = {
    b"page": responses.Page,
    b"plan": responses.Plan,
    b"offset": responses.Offset,
    b"started": responses.Started,
    b"readers": list[responses.Reader],
    b"subscriptions": list[responses.Subscription],
}


def answer(content: bytes) -> None:
    """What a client reads, also of a service that is none: the first line is a status, or the type of the body."""
    line, _, raw = content.partition(b"\n")
    headers = {"retry-after": raw[:12].decode("latin-1")}
    if line.isdigit() and len(line) == 3:
        failed = errors.from_response("poll", int(line), headers, raw)
        promise(isinstance(str(failed), str), "a failure has a sentence")
        if isinstance(failed, errors.Busy):
            promise(0 <= (failed.retry_after_seconds or 0) <= errors.RETRY_AFTER_SECONDS_MAX, "no one waits for ever")
        return
    Response(status=200, headers=headers, body=raw).json(_ANSWERS.get(line, responses.Page))


def arrow(content: bytes) -> None:
    """A stream of Arrow: the first line is the position in the headers."""
    line, _, raw = content.partition(b"\n")
    headers = {"fairlead-next-position": line.decode("latin-1"), "fairlead-generation": line.decode("latin-1")}
    page = read_arrow_page("", Response(status=200, headers=headers, body=raw))
    promise(page.table.num_rows >= 0, "a page has rows or none")


def snapshot(content: bytes) -> None:
    _snapshot(content)
    base64.b64encode(content)


QUERY_WORDS = (b"ttl=", b"producer_id=", b"epoch=", b"sequence=", b"sequences=1,2", b"fence=true", b"&", b"isolation=",
               b"wait_ms=", b"limit=", b"state=", b"before=", b"after=", b"ts=", b"earliest")  # fmt: skip
WORDS = tuple(
    f'"{each}"'.encode()
    for each in """transactionWritePointer messages payload ttl producer id epoch sequence sequences fence startFrom
    inclusive limit transaction isolation read_committed none wait_ms after upto limit_rows limit_bytes
    generation splits url delivery dead_letter_topic transactional hold_up_seconds_max
    retry_backoff_function minimum_delay maximum_delay retries_with_no_delay minimum_delay_retries
    maximum_delay_retries jitter full seed timeout changes""".split()  # noqa: SIM905
)
_REFUSED = (Refused,)
TARGETS = (
    Target(
        name="messaging-publish",
        says="A publish in JSON: one number for each message, and no more messages than there is memory for.",
        read=publish,
        refusals=_REFUSED,
        shape="json",
        words=WORDS,
    ),
    Target(
        name="messaging-body",
        says="Every other body in JSON; what is kept of it is read as it was written.",
        read=body,
        refusals=_REFUSED,
        shape="request",
        words=WORDS,
    ),
    Target(
        name="messaging-avro-publish",
        says="A publish in Avro, with its query.",
        read=avro_publish,
        refusals=_REFUSED,
        shape="request",
        words=QUERY_WORDS,
    ),
    Target(
        name="messaging-avro-poll",
        says="A poll in Avro, with its query.",
        read=avro_poll,
        refusals=_REFUSED,
        shape="request",
        words=QUERY_WORDS,
    ),
    Target(
        name="messaging-avro-rollback",
        says="A rollback in Avro.",
        read=avro_rollback,
        refusals=_REFUSED,
        shape="bytes",
    ),
    Target(
        name="messaging-query",
        says="Queries, ids and positions.",
        read=query,
        refusals=_REFUSED,
        shape="text",
        words=QUERY_WORDS,
    ),
    Target(
        name="messaging-snapshot",
        says="The snapshot of a transaction, which a client holds and sends back.",
        read=snapshot,
        refusals=_REFUSED,
        shape="bytes",
    ),
    Target(
        name="delivery-policy",
        says="A delivery policy, in bodies and in custom resources.",
        read=policy,
        refusals=(Wrong, msgspec.DecodeError, UnicodeDecodeError, RecursionError),
        shape="json",
        words=WORDS,
    ),
    Target(
        name="push-endpoint",
        says="The URL of an endpoint, and the Retry-After it answers.",
        read=push_endpoint,
        refusals=(),
        shape="text",
        words=(b"http://", b"https://", b"[::1]", b"[fe80::1%25eth0]", b"169.254.169.254", b":0", b"@", b"#", b"?"),
    ),
    Target(
        name="messaging-answer",
        says="What a client is answered, by a service or by whatever stands in its place.",
        read=answer,
        refusals=(RemoteError,),
        shape="request",
    ),
    Target(
        name="messaging-arrow",
        says="An Arrow page as a client reads it.",
        read=arrow,
        refusals=(RemoteError,),
        shape="request",
    ),
)
