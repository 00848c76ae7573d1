"""Named readers and their lag."""

from __future__ import annotations

import pytest
from tests.support.messaging_core import NAMESPACE, Core, publish

from fairlead_messaging import readers
from fairlead_messaging.commands import NoteReader
from fairlead_messaging.errors import Conflict, Refused
from fairlead_messaging.message_id import FIRST
from fairlead_messaging.readers import Reader


def note(core: Core, reader: str, position: bytes, generation: int | None = None) -> None:
    core.do(NoteReader(namespace=NAMESPACE, name="t", reader=reader, position=position, generation=generation))


def listed(core: Core) -> list[Reader]:
    with core.kv.snapshot() as snapshot:
        return readers.every(snapshot, core.topic("t"), core.now_ms)


def test_lag_in_messages_and_seconds() -> None:
    """What was stored after the position, and how old the first of it is."""
    core = Core()
    core.create("t")
    core.do(publish("t", *["x"] * 3000))
    ids = core.page("t", limit=5000).ids
    core.now_ms += 2500
    note(core, "ahead", ids[-1])
    note(core, "behind", ids[999], 1)
    note(core, "new", FIRST)
    assert [(each.name, each.lag_messages, each.lag_seconds) for each in listed(core)] == [
        ("ahead", 0, 0.0), ("behind", 2000, 2.5), ("new", 3000, 2.5),
    ]  # fmt: skip


def test_what_has_expired_is_no_lag() -> None:
    """Nobody can read it any more."""
    core = Core()
    core.create("t", ttl_seconds=10)
    core.do(publish("t", "old"))
    core.now_ms += 11_000
    core.do(publish("t", "new"))
    note(core, "r", FIRST)
    assert [each.lag_messages for each in listed(core)] == [1]


def test_what_is_refused() -> None:
    """Another generation, or a name that is none."""
    core = Core()
    core.create("t")
    with pytest.raises(Conflict):
        note(core, "r", FIRST, 2)
    with pytest.raises(Refused):
        note(core, "a b", FIRST)
