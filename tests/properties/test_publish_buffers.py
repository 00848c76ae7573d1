"""Whatever is lost on the way, a buffered publisher's messages are stored once, in order, or counted as dropped."""

from __future__ import annotations

import base64
import json

from hypothesis import given
from hypothesis import strategies as st

from fairlead_messaging.client import errors
from fairlead_messaging.client.publish_buffer import PublishBuffer

LOST = errors.TimedOut("lost", seconds=1)
STEPS = st.lists(st.sampled_from(["offer", "answered", "request lost", "answer lost", "refused"]), max_size=60)


class Service:
    """Stores what it does not know yet, as the real one does for a producer."""

    def __init__(self) -> None:
        self.stored: list[bytes] = []
        self.known: set[int] = set()

    def take(self, body: bytes) -> None:
        asked = json.loads(body)
        first = asked["producer"]["sequence"]
        for number, text in enumerate(asked["messages"], first):
            if number not in self.known:
                self.known.add(number)
                self.stored.append(base64.b64decode(text))


@given(steps=STEPS, room=st.integers(1, 5))
def test_each_message_is_stored_once_or_counted(steps: list[str], room: int) -> None:
    """Numbers never meet twice, order is kept, and the counts add up."""
    outgoing, service = PublishBuffer("n", "t", producer_id="p", epoch=1, waiting_messages_max=room), Service()
    appended: list[bytes] = []
    for step in [*steps, *["answered"] * (len(steps) + 1)]:
        if step == "offer":
            appended.append(b"%d" % len(appended))
            outgoing.offer(appended[-1])
            continue
        call = outgoing.batch()
        if call is None:
            continue
        assert call.body is not None
        if step == "request lost":
            outgoing.failed(LOST)
        elif step == "answer lost":
            service.take(call.body)
            outgoing.failed(LOST)
        elif step == "refused" and not service.known.intersection(numbers(call.body)):
            outgoing.refused()
        else:
            service.take(call.body)
            outgoing.stored()
    assert service.stored == sorted(set(service.stored), key=appended.index)
    assert (outgoing.published, outgoing.waiting) == (len(service.stored), 0)
    assert outgoing.published + outgoing.dropped == len(appended)


def numbers(body: bytes) -> range:
    asked = json.loads(body)
    first: int = asked["producer"]["sequence"]
    return range(first, first + len(asked["messages"]))
