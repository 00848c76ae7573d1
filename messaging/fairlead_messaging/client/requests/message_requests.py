"""Messages: published, read a page at a time, looked at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from fairlead_messaging.api import headers, routes
from fairlead_messaging.api.requests import (
    InspectQuery,
    MessageToPublish,
    PollRequest,
    Producer,
    PublishRequest,
)
from fairlead_messaging.api.responses import (
    Inspected,
    Page,
    Placed,
    PublishedByProducer,
)
from fairlead_messaging.client.request import ClientRequest, ask, to
from fairlead_messaging.client.response import Response
from fairlead_wire.errors import RemoteError


def publish(
    namespace: str,
    name: str,
    payloads: Sequence[bytes],
    *,
    producer: Producer | None = None,
    ttl_seconds: int | None = None,
    traceparent: str | None = None,
) -> ClientRequest[Placed]:
    """Durable when it returns.  With a producer it is safe to repeat; without one a lost answer is never repeated.

    ``traceparent``: the W3C trace context of the call; a service that records spans continues it.

    Raises ``TopicMissing``, ``Fenced``, ``TooLarge`` (the service takes 16 MiB of JSON in one request).
    """
    if producer is not None and producer.sequences is not None:
        producer = msgspec.structs.replace(producer, sequences=list(producer.sequences))
    messages: list[bytes | MessageToPublish] = list(payloads)
    if ttl_seconds is not None:
        messages = [MessageToPublish(payload=payload, ttl=ttl_seconds) for payload in payloads]

    def published(response: Response) -> Placed:
        if producer is None:
            return Placed()
        found = response.json(PublishedByProducer).producer
        return Placed(
            stored=found.stored,
            known=found.known,
            service=response.header(headers.SERVICE) or "",
            generation=response.generation,
            first=response.header(headers.FIRST_POSITION) or "",
            newest=response.header(headers.NEWEST_POSITION) or "",
        )

    body = PublishRequest(messages=messages, producer=producer)
    repeatable = producer is not None
    more: dict[str, Any] = {"repeatable": repeatable, "traceparent": traceparent}
    return to(routes.PUBLISH, namespace, name, body=body, decode=published, **more)


def poll(
    namespace: str,
    name: str,
    *,
    start_from: str | int | None = None,
    inclusive: bool = True,
    limit: int | None = None,
    wait_ms: int = 0,
    read_committed: bool = False,
    transaction: bytes | None = None,
) -> ClientRequest[Page]:
    """One page.  ``start_from``: an id (hex), a time in milliseconds, or None for the oldest message.

    ``wait_ms`` waits for the first message.  ``read_committed`` stops at the first undecided message; ``transaction``:
    the snapshot of a started transaction, to see what it may see.
    """
    body = PollRequest(
        startFrom=start_from,
        inclusive=inclusive,
        limit=limit,
        wait_ms=wait_ms,
        transaction=transaction,
        isolation="read_committed" if read_committed else "none",
    )

    def page(response: Response) -> Page:
        position = response.header(headers.NEXT_POSITION)
        if position is None:
            raise RemoteError("the answer to a poll has no next position: this is not the messaging service")
        return Page(messages=response.json(routes.POLL.response), next_position=position)

    return to(routes.POLL, namespace, name, body=body, decode=page, wait_seconds=wait_ms / 1000)


def inspect(namespace: str, name: str, *, after: str = "", limit: int = 100) -> ClientRequest[list[Inspected]]:
    """Rows with their state, without consuming anything; ``after`` is an id (hex)."""
    return ask(routes.INSPECT, namespace, name, query=InspectQuery(after=after, limit=limit))
