"""Changing subscriptions in the table."""

from __future__ import annotations

import pytest
from tests.support.topics.messaging_core import NAMESPACE, Core, answers_as_typed

from fairlead_messaging.api.errors import Conflict, NotFound, Refused
from fairlead_messaging.server.commands import DeleteTopic
from fairlead_messaging.server.subscriptions import changes, push, subscription
from fairlead_messaging.server.subscriptions.changes import DeleteSubscription, PutSubscription, RecordDelivery
from fairlead_messaging.server.subscriptions.subscription import SubscriptionRecord
from fairlead_wire.delivery_policy import DeliveryPolicy


def put(core: Core, name: str, **record: object) -> None:
    core.do(
        PutSubscription(
            namespace=NAMESPACE,
            name="t",
            subscription=name,
            record=SubscriptionRecord(url="http://x", **record),  # type: ignore[arg-type]
        )
    )


def held(core: Core) -> dict[str, SubscriptionRecord]:
    with core.kv.snapshot() as snapshot:
        return subscription.of_topic(snapshot, core.topic("t"))


def note(core: Core, record: SubscriptionRecord, generation: int = 1) -> None:
    policy = subscription.policy_digest(subscription.effective_policy(core.topic("t"), record))
    core.do(
        RecordDelivery(
            namespace=NAMESPACE, name="t", generation=generation, subscription="s", record=record, policy=policy
        )
    )


def test_a_change_keeps_the_place_and_the_counts() -> None:
    """Where to and how are new; where it stands is not."""
    core = Core()
    core.create("t")
    put(core, "s", position="01")
    note(core, push.moved_to(held(core)["s"], "02", delivered=1, expired=2))
    put(core, "s", position="99", dead_letter_topic="n/d")
    found = held(core)["s"]
    assert (found.position, found.delivered, found.expired, found.dead_letter_topic) == ("02", 1, 2, "n/d")


def test_a_delivery_is_recorded_for_the_subscription_it_was_made_for() -> None:
    """Not of one put anew meanwhile, and not of one of the topic's next generation."""
    core = Core()
    core.create("t")
    put(core, "s", position="01", revision="a")
    stale = push.moved_to(held(core)["s"], "02", delivered=1)
    put(core, "s", position="01", revision="b")
    with pytest.raises(Conflict):
        note(core, stale)
    core.do(DeleteTopic(namespace=NAMESPACE, name="t"))
    core.create("t")
    put(core, "s", position="05", revision="a")
    with pytest.raises(NotFound):
        note(core, stale)
    assert (held(core)["s"].position, held(core)["s"].delivered) == ("05", 0)


def test_a_topic_is_not_its_own_dead_letter_topic() -> None:
    """A message that no endpoint takes would come back for ever."""
    core = Core()
    core.create("t")
    with pytest.raises(Refused, match="another topic"):
        put(core, "s", dead_letter_topic=f"{NAMESPACE}/t")


def test_a_delivery_in_the_batch_of_the_deletion_does_not_revive() -> None:
    """What a batch deleted is gone for the rest of it."""
    core = Core()
    core.create("t")
    put(core, "s")
    names = {"namespace": NAMESPACE, "name": "t", "subscription": "s"}
    noted = RecordDelivery(**names, generation=1, record=held(core)["s"], policy="")
    gone, refused = core.batch(DeleteSubscription(**names), noted)
    assert gone is None and isinstance(refused, NotFound)
    assert held(core) == {}


def test_what_is_not_there_cannot_be_recorded_or_deleted() -> None:
    """A delivery that ends after its subscription leaves nothing behind."""
    core = Core()
    core.create("t")
    with pytest.raises(NotFound):
        note(core, SubscriptionRecord(url="http://x"))
    with pytest.raises(NotFound):
        core.do(DeleteSubscription(namespace=NAMESPACE, name="t", subscription="s"))
    assert held(core) == {}


def test_their_number_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changing an existing one is always possible."""
    monkeypatch.setattr(changes, "SUBSCRIPTIONS_MAX", 1)
    core = Core()
    core.create("t")
    put(core, "a")
    put(core, "a")
    with pytest.raises(Refused):
        put(core, "b")


# --- Each command on subscriptions is answered by what it is typed with.

DEFAULT = subscription.policy_digest(DeliveryPolicy())


def test_each_command_on_subscriptions_is_answered_by_its_type() -> None:
    """None: the record is read where it is needed."""
    core = Core()
    generation = core.create("t").generation
    of = {"namespace": NAMESPACE, "name": "t", "subscription": "s"}
    record = SubscriptionRecord(url="http://127.0.0.1:1/")
    answers_as_typed(core, PutSubscription(**of, record=record))
    answers_as_typed(core, RecordDelivery(**of, generation=generation, record=record, policy=DEFAULT))
    answers_as_typed(core, DeleteSubscription(**of))
