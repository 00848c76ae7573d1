"""Names of spans and their attributes, in one place because the conventions for messaging are not final yet.

Names contain no ids, which would make a series of each message; node, topic and stream are attributes.
"""

from __future__ import annotations

from typing import Final, Literal

PUBLISH: Final = "publish"
UPSTREAM_BATCH: Final = "upstream batch"
STORE: Final = "store"
INGEST_BATCH: Final = "ingest batch"
OBSERVE: Final = "observe"
DELIVER: Final = "deliver"
APPLY: Final = "apply"
RECORD: Final = "record"

DESTINATION: Final = "messaging.destination.name"
ANSWER: Final = "fairlead.answer"
"""``ack``, or the code of the refusal."""
NODE: Final = "fairlead.node"
STREAM: Final = "fairlead.stream"
RESOURCE: Final = "fairlead.resource"
TABLE: Final = "fairlead.table"
BATCH: Final = "fairlead.batch"
ROWS: Final = "fairlead.rows"
DEAD_LETTERS: Final = "fairlead.dead_letters"

Operation = Literal["send", "receive", "process"]


def of_messages(
    count: int, topic: str = "", *, operation: Operation, node: str = "", stream: str = ""
) -> dict[str, str | int]:
    """Attributes of a span that covers ``count`` messages; ``topic`` is ``namespace/name``."""
    found: dict[str, str | int] = {
        "messaging.system": "fairlead",
        "messaging.operation.type": operation,
        "messaging.batch.message_count": count,
    }
    named = {DESTINATION: topic, NODE: node, STREAM: stream}
    return found | {name: value for name, value in named.items() if value}
