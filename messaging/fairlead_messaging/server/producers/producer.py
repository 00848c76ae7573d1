"""Who publishes: id, epoch and a number for each message, so that each is stored once (``sequences``).

Epochs are independent: an older epoch's backlog stays welcome unless a newer epoch fenced it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fairlead_messaging.api.errors import Conflict, Refused

PRODUCER_ID_BYTES_MAX = 512
SEQUENCE_NUMBER_MAX = 2**63 - 1
RETENTION_SECONDS_MIN = 30 * 86_400
"""Known sequences are kept this long, or the topic's time to live, whichever is longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedProducer:
    """Who publishes: ``sequences`` holds one number per message of the request."""

    id: str
    epoch: int
    sequences: tuple[int, ...]
    fence: bool = False


class Epochs:
    """Newest and fenced epoch of one producer id."""

    __slots__ = ("fenced", "newest")

    def __init__(self, raw: bytes | None = None) -> None:
        self.newest = int.from_bytes(raw[:8], "big") if raw else 0
        self.fenced = int.from_bytes(raw[8:16], "big") if raw else 0

    def check(self, producer: NumberedProducer) -> None:
        """Raises: Conflict when the epoch was fenced, or asks for fencing and is not the newest."""
        if producer.epoch < self.fenced or (producer.fence and producer.epoch < self.newest):
            raise Conflict(
                f"epoch {producer.epoch} is older than {max(self.fenced, self.newest)}",
                code="fenced",
                newest=self.newest,
            )

    def note(self, producer: NumberedProducer) -> bool:
        """Take the epoch in; True when something changed and must be stored."""
        newest = max(self.newest, producer.epoch)
        fenced = max(self.fenced, producer.epoch) if producer.fence else self.fenced
        changed = (newest, fenced) != (self.newest, self.fenced)
        self.newest, self.fenced = newest, fenced
        return changed

    def encode(self) -> bytes:
        return self.newest.to_bytes(8, "big") + self.fenced.to_bytes(8, "big")


def make(
    *, producer_id: str, epoch: int, sequence: int | None, sequences: Sequence[int] | None, fence: bool, messages: int
) -> NumberedProducer:
    """A request's producer, with exactly one sequence number per message.

    Raises: Refused saying what is wrong.
    """
    if not 1 <= len(producer_id.encode()) <= PRODUCER_ID_BYTES_MAX:
        raise Refused(f"producer.id must be 1 to {PRODUCER_ID_BYTES_MAX} bytes", code="bad_producer")
    if not 0 <= epoch <= SEQUENCE_NUMBER_MAX:
        raise Refused(f"producer.epoch must be 0 to {SEQUENCE_NUMBER_MAX}", code="bad_producer")
    if (sequence is None) == (sequences is None):
        raise Refused("producer needs either sequence (of the first message) or sequences", code="bad_producer")
    numbers = tuple(sequences) if sequences is not None else tuple(range(sequence or 0, (sequence or 0) + messages))
    if len(numbers) != messages:
        raise Refused(f"producer.sequences has {len(numbers)} numbers for {messages} messages", code="bad_producer")
    if numbers and not 0 <= min(numbers) <= max(numbers) <= SEQUENCE_NUMBER_MAX:
        raise Refused(f"sequence numbers must be 0 to {SEQUENCE_NUMBER_MAX}", code="bad_producer")
    return NumberedProducer(id=producer_id, epoch=epoch, sequences=numbers, fence=fence)
