"""How far tables have read each topic, kept so that it is known without a hub."""

from __future__ import annotations

from collections.abc import Sequence

import apsw
import msgspec

from fairlead_edge.checksum import of_row
from fairlead_edge.io.outbox.tables import statements as sql
from fairlead_edge.io.outbox.tables.bodies import text
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.outbox.receipts.reached import TopicReach

TOPICS_MAX = 1_024
"""More are forgotten, those first of which nothing was said for longest."""

_topic = msgspec.json.Decoder(TopicReach)


def keep(connection: apsw.Connection, *, topics: Sequence[TopicReach]) -> None:
    """Each instead of what was kept of it."""
    for each in topics:
        row = (each.topic, msgspec.json.encode(each), each.as_of)
        connection.execute(sql.KEEP_REACHED, (*row, of_row(*row)))
    connection.execute(sql.FORGET_REACHED, (TOPICS_MAX,))


def read(connection: apsw.Connection) -> dict[str, TopicReach]:
    """By topic; what the disk changed is asked for again."""
    found = {}
    for name, content, as_of, expected in rows(connection, sql.REACHED):
        if of_row(text(name), content, as_of) == expected:
            found[text(name)] = _topic.decode(content)
    return found
