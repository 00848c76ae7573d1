"""Changing subscriptions in the table."""

from __future__ import annotations

import pytest
from tests.support.messaging_core import NAMESPACE, Core

from fairlead_messaging import subscription, subscriptions
from fairlead_messaging.commands import DeleteSubscription, NoteSubscription, PutSubscription
from fairlead_messaging.errors import NotFound, Refused
from fairlead_messaging.subscription import Subscription


def put(core: Core, name: str, **record: object) -> None:
    core.do(
        PutSubscription(
            namespace=NAMESPACE,
            name="t",
            subscription=name,
            record=Subscription(url="http://x", **record),  # type: ignore[arg-type]
        )
    )


def held(core: Core) -> dict[str, Subscription]:
    with core.kv.snapshot() as snapshot:
        return subscription.of_topic(snapshot, core.topic("t"))


def test_a_change_keeps_the_place_and_a_note_keeps_the_change() -> None:
    """Whoever changes it and whoever delivers may write at the same time."""
    core = Core()
    core.create("t")
    put(core, "s", position="01")
    stale = held(core)["s"]
    put(core, "s", position="99", dead_letter_topic="n/d")
    assert (held(core)["s"].position, held(core)["s"].dead_letter_topic) == ("01", "n/d")
    noted = subscription.moved(stale, "02", delivered=1)
    core.do(NoteSubscription(namespace=NAMESPACE, name="t", subscription="s", record=noted))
    assert (held(core)["s"].position, held(core)["s"].dead_letter_topic) == ("02", "n/d")


def test_a_note_in_the_batch_of_the_deletion_does_not_revive() -> None:
    """What a batch deleted is gone for the rest of it."""
    core = Core()
    core.create("t")
    put(core, "s")
    names = {"namespace": NAMESPACE, "name": "t", "subscription": "s"}
    gone, refused = core.batch(DeleteSubscription(**names), NoteSubscription(**names, record=held(core)["s"]))
    assert gone is None and isinstance(refused, NotFound)
    assert held(core) == {}


def test_what_is_not_there_cannot_be_noted_or_deleted() -> None:
    """A delivery that ends after its subscription leaves nothing behind."""
    core = Core()
    core.create("t")
    with pytest.raises(NotFound):
        core.do(NoteSubscription(namespace=NAMESPACE, name="t", subscription="s", record=Subscription(url="http://x")))
    with pytest.raises(NotFound):
        core.do(DeleteSubscription(namespace=NAMESPACE, name="t", subscription="s"))
    assert held(core) == {}


def test_their_number_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changing an existing one is always possible."""
    monkeypatch.setattr(subscriptions, "SUBSCRIPTIONS_MAX", 1)
    core = Core()
    core.create("t")
    put(core, "a")
    put(core, "a")
    with pytest.raises(Refused):
        put(core, "b")
