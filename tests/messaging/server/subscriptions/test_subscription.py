"""What a subscription may ask for, and its record."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.topics.messaging_core import NAMESPACE, Core, answers_as_typed

from fairlead_messaging.api.errors import Conflict, NotFound, Refused
from fairlead_messaging.server.commands import DeleteTopic
from fairlead_messaging.server.log.topic import NAME_CHARS_MAX, TopicGeneration
from fairlead_messaging.server.producers import PRODUCER_ID_BYTES_MAX
from fairlead_messaging.server.subscriptions import changes, push, subscription
from fairlead_messaging.server.subscriptions.changes import DeleteSubscription, PutSubscription, RecordDelivery
from fairlead_messaging.server.subscriptions.subscription import SubscriptionRecord
from fairlead_wire.delivery_policy import DeliveryPolicy


def test_a_record_comes_back() -> None:
    record = SubscriptionRecord(url="http://x", delivery={"jitter": "full"}, position="00", attempts=3)
    assert subscription.decode(subscription.encode(record)) == record


@pytest.mark.parametrize(
    "host", ["169.254.169.254", "[fe80::1]", "[::ffff:169.254.169.254]", "0.0.0.0", "224.0.0.1", "[fe80::1%25eth0]"]
)
def test_nothing_is_pushed_to_a_link_local_address(host: str) -> None:
    """The cloud's metadata service gives credentials to every program that asks from inside."""
    with pytest.raises(Refused, match="link-local"):
        subscription.parse({"url": f"http://{host}/"})


@pytest.mark.parametrize("host", ["127.0.0.1", "10.0.0.7", "[::1]", "hooks.shop.svc", "192.168.1.1"])
def test_private_networks_are_where_endpoints_are(host: str) -> None:
    assert subscription.parse({"url": f"http://{host}/"}).url == f"http://{host}/"


@pytest.mark.parametrize(
    ("status", "delivered", "final"),
    [(200, True, False), (204, True, False), (301, False, True), (400, False, True), (404, False, True),
     (408, False, False), (425, False, False), (429, False, False), (500, False, False), (503, False, False),
     (599, False, False), (199, False, True), (600, False, True), (999, False, True)],
)  # fmt: skip
def test_answers(status: int, delivered: bool, final: bool) -> None:
    assert subscription.is_delivered_status(status) is delivered
    assert (not delivered and subscription.is_final_status(status)) is final


def test_a_dead_letter_has_a_producer_whatever_the_names_length() -> None:
    """Names may have 200 characters each; a refused producer would hold the subscription up for ever."""
    longest = ("n" * NAME_CHARS_MAX, "t" * NAME_CHARS_MAX, "s" * NAME_CHARS_MAX)
    ids = {
        subscription.dead_letter_producer_id((*longest[:2], last), p)
        for last in ("s" * 200, "r" * 200)
        for p in ("00", "01")
    }
    assert len(ids) == 4 and max(map(len, ids)) <= PRODUCER_ID_BYTES_MAX
    assert subscription.dead_letter_producer_id(("default", "t", "s"), "00") == "subscription/default/t/s/00"


# --- Which delivery policy counts.

SLOW, FAST = {"minimum_delay": 20, "maximum_delay": 30}, {"minimum_delay": 1, "maximum_delay": 3}
RULES = {**SLOW, "ignore_subscription_override": True}


@pytest.mark.parametrize(
    ("of_topic", "own", "counts"),
    [
        (None, None, {}),
        (SLOW, None, SLOW),
        (None, FAST, FAST),
        (SLOW, FAST, FAST),
        (RULES, FAST, RULES),
        (SLOW, {**FAST, "ignore_subscription_override": True}, SLOW),
        (SLOW, {}, SLOW),
        ({}, FAST, FAST),
        ({}, {**FAST, "ignore_subscription_override": True}, {}),
        (None, {}, {}),
    ],
)
def test_whole_policies_count(
    of_topic: dict[str, Any] | None, own: dict[str, Any] | None, counts: dict[str, Any]
) -> None:
    topic = TopicGeneration(namespace="n", name="t", generation=1, ttl_seconds=5, delivery=of_topic)
    record = SubscriptionRecord(url="http://x", delivery=own)
    assert subscription.effective_policy(topic, record) == DeliveryPolicy(**counts)


def test_a_digest_differs_where_policies_do() -> None:
    assert subscription.policy_digest(DeliveryPolicy()) == subscription.policy_digest(DeliveryPolicy(minimum_delay=5))
    assert subscription.policy_digest(DeliveryPolicy()) != subscription.policy_digest(DeliveryPolicy(minimum_delay=6))


# --- Changing subscriptions in the table.


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


def test_a_change_keeps_the_place_and_the_counts(core: Core) -> None:
    put(core, "s", position="01")
    note(core, push.moved_to(held(core)["s"], "02", delivered=1, expired=2))
    put(core, "s", position="99", dead_letter_topic="n/d")
    found = held(core)["s"]
    assert (found.position, found.delivered, found.expired, found.dead_letter_topic) == ("02", 1, 2, "n/d")


def test_a_delivery_is_recorded_for_the_subscription_it_was_made_for(core: Core) -> None:
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


def test_a_topic_is_not_its_own_dead_letter_topic(core: Core) -> None:
    with pytest.raises(Refused, match="another topic"):
        put(core, "s", dead_letter_topic=f"{NAMESPACE}/t")


def test_a_delivery_in_the_batch_of_the_deletion_does_not_revive(core: Core) -> None:
    put(core, "s")
    names = {"namespace": NAMESPACE, "name": "t", "subscription": "s"}
    noted = RecordDelivery(**names, generation=1, record=held(core)["s"], policy="")
    gone, refused = core.batch(DeleteSubscription(**names), noted)
    assert gone is None and isinstance(refused, NotFound)
    assert held(core) == {}


def test_what_is_not_there_cannot_be_recorded_or_deleted(core: Core) -> None:
    """A delivery that ends after its subscription leaves nothing behind."""
    with pytest.raises(NotFound):
        note(core, SubscriptionRecord(url="http://x"))
    with pytest.raises(NotFound):
        core.do(DeleteSubscription(namespace=NAMESPACE, name="t", subscription="s"))
    assert held(core) == {}


def test_their_number_is_bounded(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "SUBSCRIPTIONS_MAX", 1)
    put(core, "a")
    put(core, "a")
    with pytest.raises(Refused):
        put(core, "b")


DEFAULT = subscription.policy_digest(DeliveryPolicy())


def test_each_command_on_subscriptions_is_answered_by_its_type() -> None:
    core = Core()
    generation = core.create("t").generation
    of = {"namespace": NAMESPACE, "name": "t", "subscription": "s"}
    record = SubscriptionRecord(url="http://127.0.0.1:1/")
    answers_as_typed(core, PutSubscription(**of, record=record))
    answers_as_typed(core, RecordDelivery(**of, generation=generation, record=record, policy=DEFAULT))
    answers_as_typed(core, DeleteSubscription(**of))
