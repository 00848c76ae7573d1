"""What a subscription has before it, and what it counts on the way."""

from __future__ import annotations

from tests.support.topics.messaging_core import NAMESPACE, Core, publish

from fairlead_messaging.api.message_id import FIRST, MessageId
from fairlead_messaging.server import retention
from fairlead_messaging.server.commands import Publish, RemoveRows
from fairlead_messaging.server.log.rows import LoggedMessage
from fairlead_messaging.server.subscriptions import push_page
from fairlead_messaging.server.subscriptions.changes import PutSubscription
from fairlead_messaging.server.subscriptions.push_page import PushPage
from fairlead_messaging.server.subscriptions.subscription import SubscriptionRecord
from fairlead_messaging.server.transactions.commands import Abort


def page(core: Core, after: MessageId = FIRST, limit: int = 100) -> PushPage:
    with core.kv.snapshot() as snapshot:
        return push_page.read(snapshot, core.topic("t"), after=after, limit=limit, bytes_max=10**6, now_ms=core.now_ms)


def shown(found: PushPage) -> list[tuple[str, int]]:
    """Payloads, with how many are over before each."""
    return [(item.payload.decode(), item.expired) for item in found.items]


def mortal(core: Core, *payloads: str, pointer: int | None = None) -> None:
    core.do(
        Publish(
            namespace=NAMESPACE,
            name="t",
            messages=[LoggedMessage(each.encode(), 1) for each in payloads],
            pointer=pointer,
        )
    )


def clean(core: Core) -> None:
    with core.kv.snapshot() as snapshot:
        core.do(RemoveRows(batch=retention.sweep(snapshot, core.topic("t"), core.now_ms).batch))


def subscribe(core: Core) -> None:
    core.do(PutSubscription(namespace=NAMESPACE, name="t", subscription="s", record=SubscriptionRecord(url="http://x")))


def test_expired_ones_are_counted_where_they_stand(core: Core) -> None:
    for mine in (("a",), ("x", "y"), ("b",), ("z",)):
        core.do(publish("t", *mine)) if mine[0] in "ab" else mortal(core, *mine)
    core.now_ms += 1001
    found = page(core)
    assert shown(found) == [("a", 0), ("b", 2)]
    assert (found.expired, found.complete) == (1, True)
    assert shown(page(core, limit=1)) == [("a", 0)]


def test_cleaning_leaves_what_a_subscription_has_to_count() -> None:
    core = Core()
    core.create("t", ttl_seconds=10)
    subscribe(core)
    mortal(core, "x" * 1000, "y")
    core.do(publish("t", "a"))
    core.now_ms += 1001
    clean(core)
    assert shown(page(core)) == [("a", 2)]
    core.now_ms += 10_001
    clean(core)
    assert (page(core).items, page(core).expired) == ([], 3)
    core.now_ms += retention.SUBSCRIPTION_GRACE_SECONDS * 1000
    clean(core)
    assert core.read("t") == [] and page(core).expired == 3  # by the running totals now


def test_undecided_holds_until_its_time_is_over(core: Core) -> None:
    held = core.start()
    mortal(core, "x", pointer=held)
    core.do(publish("t", "a"))
    assert (page(core).items, page(core).complete, page(core).end) == ([], True, FIRST)
    core.now_ms += 1001
    assert shown(page(core)) == [("a", 1)]
    aborted = core.start()
    core.do(publish("t", "y", pointer=aborted))
    core.do(Abort(pointer=aborted))
    found = page(core, after=page(core).items[0].id)
    assert (found.items, found.expired, found.complete) == ([], 0, True)
    assert found.end > page(core).items[0].id


def test_references_message_by_message(core: Core) -> None:
    pointer = core.start()
    messages = [LoggedMessage(b"a"), LoggedMessage(b"b", 1), LoggedMessage(b"c")]
    core.store(pointer, *messages)
    core.do(publish("t", pointer=pointer))
    core.commit(pointer)
    first = page(core, limit=1)
    assert shown(first) == [("a", 0)] and not first.complete
    core.now_ms += 1001
    assert shown(page(core, after=first.end)) == [("c", 1)]
    with core.kv.snapshot() as snapshot:
        topic = core.topic("t")
        found = push_page.find(snapshot, topic, first.items[0].id, core.now_ms)
        assert found is not None and found.payload == b"a"
        assert push_page.find(snapshot, topic, first.items[0].id, core.now_ms + 10**9) is None
        assert push_page.find(snapshot, topic, MessageId(b"\x01" * 20), core.now_ms) is None
