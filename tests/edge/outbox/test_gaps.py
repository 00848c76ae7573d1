"""Gap records: neighbours together, in the form that is promised."""

from __future__ import annotations

import json

from fairlead_edge.outbox import envelope, gaps
from fairlead_edge.outbox.gaps import Damage, QueueGap
from fairlead_edge.outbox.queues import QueueId


def test_neighbours_of_one_topic_are_one_gap() -> None:
    """In whatever order they were found; another topic, or an intact message between, begins a new gap."""
    found = gaps.group([Damage(4, "d/a", "x"), Damage(3, "d/a", "y"), Damage(6, "d/a", "z"), Damage(7, "d/b", "z")])
    assert found == [QueueGap(3, 4, 2, "d/a", "y"), QueueGap(6, 6, 1, "d/a", "z"), QueueGap(7, 7, 1, "d/b", "z")]


def test_a_lost_topic_is_its_neighbours() -> None:
    """Nothing else is known of a message without an envelope."""
    assert gaps.group([Damage(3, "d/a", "y"), Damage(4, "", "z")]) == [QueueGap(3, 4, 2, "d/a", "y")]
    assert gaps.group([Damage(4, "", "z")]) == [QueueGap(4, 4, 1, "", "z")]


def test_the_record_is_a_message() -> None:
    content = gaps.content(QueueId("iothub", 0), QueueGap(3, 5, 2, "d/a", "why"), id="i", at="2026-11-20T12:00:00.000Z")
    read = envelope.read(content)
    assert (read.id, read.source, read.enqueued_at) == ("i", "/fairlead/gaps", "2026-11-20T12:00:00.000Z")
    assert json.loads(bytes(read.body)) == {  # type: ignore[arg-type]
        "queue": "iothub_Pri0",
        "from_sequence": 3,
        "to_sequence": 5,
        "count": 2,
        "reason": "why",
    }
