"""Transactions over HTTP: the seed's scenarios, and those where the original loses or reveals messages."""

from __future__ import annotations

import asyncio
import random

import pytest
from tests.support.topics.messaging import Topics, b64, serving, until


async def test_committed_messages_appear_in_publish_order(topics: Topics) -> None:
    one, _ = await topics.start()
    two, _ = await topics.start()
    await topics.publish("t", "plain")
    await topics.publish("t", "one", tx=one)
    await topics.publish("t", "two", tx=two)
    assert await topics.payloads("t") == ["plain", "one", "two"]
    assert await topics.committed("t") == ["plain"]
    assert (await topics.finish(two, "commit")).status == 200
    assert await topics.committed("t") == ["plain"]
    assert (await topics.finish(one, "commit")).status == 200
    assert await topics.committed("t") == ["plain", "one", "two"]


async def test_a_snapshot_sees_its_own_writes_and_no_later_commits(topics: Topics) -> None:
    early, early_snapshot = await topics.start()
    await topics.publish("t", "mine", tx=early)
    assert await topics.payloads("t", transaction=early_snapshot) == ["mine"]
    other, _ = await topics.start()
    await topics.publish("t", "other", tx=other)
    await topics.finish(other, "commit")
    assert await topics.payloads("t", transaction=early_snapshot) == ["mine"]
    await topics.finish(early, "commit")
    _, late_snapshot = await topics.start()
    assert await topics.payloads("t", transaction=late_snapshot) == ["mine", "other"]


async def test_a_transaction_times_out() -> None:
    async with serving() as topics:
        await topics.create("t")
        pointer, _ = await topics.start(timeout=1)
        await topics.publish("t", "a", tx=pointer)
        await topics.publish("t", "b")
        assert await topics.committed("t") == []
        waiting = asyncio.create_task(topics.poll("t", isolation="read_committed", wait_ms=30_000))
        await until(lambda: topics.broker.notifier.waiting == 1)
        topics.clock.forward(1001)
        assert (await waiting).payloads == ["b"]
        assert (await topics.finish(pointer, "commit")).body["error"]["state"] == "invalid"


async def test_a_finished_or_unknown_transaction_cannot_publish(topics: Topics) -> None:
    aborted, _ = await topics.start()
    await topics.finish(aborted, "abort")
    committed, _ = await topics.start()
    await topics.finish(committed, "commit")
    timed_out, _ = await topics.start(timeout=1)
    topics.clock.forward(1001)
    for pointer, state in ((aborted, "aborted"), (committed, "committed"), (timed_out, "invalid"), (7, "unknown")):
        for verb in ("publish", "store"):
            body = {"transactionWritePointer": pointer, "messages": [b64("x")]}
            answer = await topics.ask("POST", f"topics/t/{verb}", body)
            assert (answer.status, answer.body["error"]["state"]) == (409, state)
        for how in ("commit", "abort"):
            answer = await topics.finish(pointer, how)
            assert (answer.status, answer.body["error"]["state"]) == (409, state)
    assert await topics.committed("t") == []
    assert await topics.payloads("t") == []


async def test_rollback_with_what_publish_answered(topics: Topics) -> None:
    """The flat answer goes back as it is; transactional readers no longer see the rows, others do."""
    await topics.publish("t", "m0")
    pointer, snapshot = await topics.start()
    detail = await topics.publish("t", "m2", "m3", tx=pointer)
    assert sorted(detail) == [
        "endSequenceId", "endTimestamp", "startSequenceId", "startTimestamp", "transactionWritePointer",
    ]  # fmt: skip
    await topics.publish("t", "m4")
    for _ in range(2):
        await topics.ok("POST", "topics/t/rollback", detail)
    assert await topics.payloads("t") == ["m0", "m2", "m3", "m4"]
    assert await topics.payloads("t", transaction=snapshot) == ["m0", "m4"]


async def test_what_was_rolled_back_holds_up_no_reader(topics: Topics) -> None:
    """Bulk readers, and who looks for what blocks a topic, go on to the next undecided row, in whatever order."""
    pointer, _ = await topics.start()
    first = await topics.publish("t", "a", tx=pointer)
    await topics.publish("t", "b")
    second = await topics.publish("t", "c", tx=pointer)
    await topics.publish("t", "d")
    third = await topics.publish("t", "e", tx=pointer)
    await topics.publish("t", "f")

    async def seen() -> tuple[list[str], int, int]:
        planned = await topics.ok("POST", "topics/t/plan", {})
        waiting = (await topics.ok("GET", "/v1/transactions"))[0]["topics"]
        return await topics.committed("t"), planned["rows"], len(waiting)

    assert await seen() == ([], 0, 1)
    await topics.ok("POST", "topics/t/rollback", second)
    assert await seen() == ([], 0, 1)
    await topics.ok("POST", "topics/t/rollback", first)
    assert await seen() == (["b", "d"], 4, 1)
    await topics.ok("POST", "topics/t/rollback", third)
    assert await seen() == (["b", "d", "f"], 6, 0)
    assert (await topics.finish(pointer, "commit")).status == 200
    assert await topics.committed("t") == ["b", "d", "f"]


async def test_forged_rollbacks_change_nothing(topics: Topics) -> None:
    await topics.publish("t", "plain")
    mine, _ = await topics.start()
    detail = await topics.publish("t", "mine", tx=mine)
    theirs, _ = await topics.start()
    other = await topics.publish("t", "theirs", tx=theirs)
    forged: list[object] = [
        b"\x00\xff\x12random", b"", b"{}", {**detail, "transactionWritePointer": None},
        {**detail, "transactionWritePointer": theirs}, {**other, "transactionWritePointer": mine},
        {**detail, "startTimestamp": detail["startTimestamp"] - 1}, {**detail, "endSequenceId": 60_000},
        {**detail, "startTimestamp": -1}, {**detail, "startSequenceId": 70_000}, {**detail, "startTimestamp": 0},
        {**detail, "transactionWritePointer": 12345}, {**detail, "transactionWritePointer": -mine},
        {**detail, "transactionWritePointer": 2**63},
    ]  # fmt: skip
    for body in forged:
        assert (await topics.ask("POST", "topics/t/rollback", body)).status == 400, body
    for pointer in (mine, theirs):
        await topics.finish(pointer, "commit")
    assert await topics.committed("t") == ["plain", "mine", "theirs"]


async def test_a_rollback_whose_first_rows_have_expired(topics: Topics) -> None:
    """It hides what still lives, also when cleanup has been there; one that begins earlier is forged all the same."""
    await topics.configure("t", ttl=10)
    pointer, _ = await topics.start(timeout=600)
    first = await topics.publish("t", "old", tx=pointer)
    topics.clock.forward(9000)
    last = await topics.publish("t", "new", tx=pointer)
    topics.clock.forward(2000)
    await topics.broker.cleaner.clean()
    wide = {**first, "endTimestamp": last["endTimestamp"], "endSequenceId": last["endSequenceId"]}
    assert (await topics.ask("POST", "topics/t/rollback", {**wide, "startTimestamp": 1})).status == 400
    await topics.ok("POST", "topics/t/rollback", wide)
    await topics.finish(pointer, "commit")
    assert (await topics.payloads("t"), await topics.committed("t")) == (["new"], [])


@pytest.mark.parametrize("cleaned", [False, True])
async def test_a_rollback_of_what_expired_by_its_own_time_to_live(topics: Topics, cleaned: bool) -> None:
    """The detail is true whether its rows are still there or not, also when it is sent again; a forged one never."""
    await topics.configure("t", ttl=1000)
    pointer, _ = await topics.start(timeout=600)
    detail = await topics.publish("t", {"payload": b64("a"), "ttl": 1}, {"payload": b64("b"), "ttl": 5}, tx=pointer)
    await topics.publish("t", "other")
    topics.clock.forward(5001)
    if cleaned:
        await topics.broker.cleaner.clean()
    for _ in range(2):
        await topics.ok("POST", "topics/t/rollback", detail)
    later = {**detail, "endTimestamp": detail["endTimestamp"] + 1}
    assert (await topics.ask("POST", "topics/t/rollback", later)).status == 400
    before = {**detail, "startTimestamp": detail["startTimestamp"] - 1}
    assert (await topics.ask("POST", "topics/t/rollback", before)).status == 400
    assert await topics.committed("t") == ["other"]
    assert (await topics.finish(pointer, "commit")).status == 200
    assert await topics.committed("t") == ["other"]


async def test_store_then_publish(topics: Topics) -> None:
    pointer, _ = await topics.start()
    await topics.store("t", "a", tx=pointer)
    await topics.publish("t", "m")
    await topics.store("t", "b", "c", tx=pointer)
    assert await topics.payloads("t") == ["m"]
    assert await topics.publish("t", tx=pointer)
    page = await topics.poll("t")
    assert page.payloads == ["m", "a", "b", "c"]
    assert page.ids == sorted(set(page.ids))
    assert page.ids[1][:20] == page.ids[3][:20] and page.ids[1][20:] < page.ids[2][20:] < page.ids[3][20:]
    assert await topics.committed("t") == ["m"]
    await topics.finish(pointer, "commit")
    assert await topics.committed("t") == ["m", "a", "b", "c"]


async def test_rows_after_stored_payloads_are_refused(topics: Topics) -> None:
    """400 with the reason, and nothing of either is lost; in another topic, or another transaction, it is no matter."""
    await topics.create("other")
    pointer, _ = await topics.start()
    await topics.store("t", "a", "b", tx=pointer)
    for _ in range(2):  # published or not
        body = {"transactionWritePointer": pointer, "messages": [b64("c")]}
        refused = await topics.ask("POST", "topics/t/publish", body)
        assert (refused.status, refused.code) == (400, "stored_already")
        assert "without messages" in refused.body["error"]["message"]
        await topics.publish("t", tx=pointer)
    await topics.publish("other", "d", tx=pointer)
    another, _ = await topics.start()
    await topics.publish("t", "e", tx=another)
    for each in (pointer, another):
        assert (await topics.finish(each, "commit")).status == 200
    assert (await topics.committed("t"), await topics.committed("other")) == (["a", "b", "e"], ["d"])


async def test_a_commit_does_not_lose_what_was_stored(topics: Topics) -> None:
    for name in ("u", "gone"):
        await topics.create(name)
    pointer, _ = await topics.start()
    for name in ("t", "u", "gone"):
        await topics.store(name, name, tx=pointer)
    await topics.ok("DELETE", "topics/gone")  # nothing there can be published any more
    await topics.publish("t", tx=pointer)
    refused = await topics.finish(pointer, "commit")
    assert (refused.status, refused.code) == (409, "stored_unpublished")
    assert (refused.body["error"]["state"], refused.body["error"]["topics"]) == ("in_progress", ["default/u"])
    await topics.publish("u", tx=pointer)
    assert (await topics.finish(pointer, "commit")).status == 200
    assert (await topics.committed("t"), await topics.committed("u")) == (["t"], ["u"])


async def test_stored_payloads_of_a_transaction_whose_time_is_up(topics: Topics) -> None:
    pointer, _ = await topics.start(timeout=1)
    await topics.store("t", "a", tx=pointer)
    topics.clock.forward(1001)
    over = await topics.finish(pointer, "commit")
    assert (over.code, over.body["error"]["state"]) == ("transaction_not_in_progress", "invalid")


async def test_a_conflict_is_said_again_after_a_lost_answer(topics: Topics) -> None:
    one, _ = await topics.start()
    two, _ = await topics.start()
    await topics.finish(one, "commit", {"changes": ["k"]})
    for _ in range(2):
        lost = await topics.finish(two, "commit", {"changes": ["k"]})
        assert (lost.status, lost.code, lost.body["error"]["state"]) == (409, "transaction_conflict", "aborted")
    assert (await topics.finish(two, "abort")).code == "transaction_not_in_progress"


async def test_an_expired_start_with_a_payload_part(topics: Topics) -> None:
    """Its payload half says nothing about later transactions, whose payloads may have been written earlier."""
    await topics.configure("t", ttl=100)
    late, _ = await topics.start(timeout=600)
    await topics.store("t", "early payload", tx=late)
    topics.clock.forward(1000)
    first, _ = await topics.start()
    await topics.store("t", "old", tx=first)
    await topics.publish("t", tx=first)
    await topics.finish(first, "commit")
    old_id = (await topics.poll("t")).ids[0]
    topics.clock.forward(100_001)
    await topics.publish("t", tx=late)
    await topics.finish(late, "commit")
    assert await topics.payloads("t", startFrom=old_id, inclusive=False) == ["early payload"]


async def test_a_start_at_a_rolled_back_payload(topics: Topics) -> None:
    one, _ = await topics.start()
    await topics.store("t", "p1", "p2", "p3", tx=one)
    detail = await topics.publish("t", tx=one)
    position = (await topics.poll("t")).ids[1]
    await topics.ok("POST", "topics/t/rollback", detail)
    two, _ = await topics.start()
    await topics.store("t", "q1", "q2", tx=two)
    await topics.publish("t", tx=two)
    await topics.finish(two, "commit")
    await topics.finish(one, "commit")
    body = {"startFrom": position, "inclusive": False, "isolation": "read_committed"}
    assert await topics.payloads("t", **body) == ["q1", "q2"]


async def test_who_blocks_whom_is_visible(topics: Topics) -> None:
    pointer, _ = await topics.start()
    since = topics.clock.now_ms
    await topics.publish("t", "a", tx=pointer)
    topics.clock.forward(500)
    [listed] = await topics.ok("GET", "/v1/transactions")
    assert listed["transactionWritePointer"] == pointer
    assert listed["topics"] == [{"topic": "default/t", "since": since, "until": since + 600_000}]
    plan = await topics.ok("POST", "topics/t/plan", {})
    assert (plan["rows"], plan["held_by"], plan["held_since"]) == (0, pointer, since)
    assert (await topics.finish(pointer, "invalidate")).status == 200
    assert await topics.ok("GET", "/v1/transactions") == []


async def test_a_renewed_transaction_lives_on(topics: Topics) -> None:
    pointer, _ = await topics.start(30)
    topics.clock.forward(29_000)
    renewed = await topics.ok("POST", f"/v1/transactions/{pointer}/renew")
    now_ms = topics.clock.now_ms
    assert renewed == {
        "transactionWritePointer": pointer, "expires": now_ms + 30_000, "renewable": now_ms - 29_000 + 86_400_000,
    }  # fmt: skip
    renewed = await topics.ok("POST", f"/v1/transactions/{pointer}/renew", {"timeout": 600})
    assert renewed["expires"] == now_ms + 600_000
    for body, code in (({"timeout": 601}, "bad_timeout"), ({"timeout": 0}, "bad_timeout"), ({"x": 1}, "bad_body")):
        refused = await topics.finish(pointer, "renew", body)
        assert (refused.status, refused.code) == (400, code)
    topics.clock.forward(600_001)
    over = await topics.finish(pointer, "renew")
    assert (over.status, over.body["error"]["state"], over.body["error"]["ended_by"]) == (409, "invalid", "timeout")
    assert (await topics.finish(7, "renew")).body["error"]["state"] == "unknown"


async def test_a_hold_up_is_bounded_and_seen() -> None:
    """By the topic's own property, else by the setting; who waited is woken, and metrics and list say what happened."""
    async with serving(transactions={"hold_up_seconds_max": 5}) as topics:
        await topics.create("t")
        await topics.create("patient", hold_up_seconds_max=60)
        for bad in (0, "x", 1.5, 2**31):
            answer = await topics.ask("PUT", "topics/bad", {"hold_up_seconds_max": bad})
            assert (answer.status, answer.code) == (400, "bad_properties")
        assert (await topics.properties("patient"))["hold_up_seconds_max"] == "60"
        pointer, _ = await topics.start(600)
        other, _ = await topics.start(600)
        await topics.publish("t", "held", tx=pointer)
        await topics.publish("patient", "held", tx=other)
        await topics.publish("t", "behind")
        waiting = asyncio.create_task(topics.poll("t", isolation="read_committed", wait_ms=30_000))
        await until(lambda: topics.broker.notifier.waiting == 1)
        topics.clock.forward(5001)
        assert (await waiting).payloads == ["behind"]
        assert await topics.committed("patient") == []
        [listed] = await topics.ok("GET", "/v1/transactions?state=invalid")
        assert (listed["transactionWritePointer"], listed["ended_by"]) == (pointer, "hold_up")
        await until(lambda: topics.broker.keeper.ended["hold_up"] == 1)
        text = (await topics.ask("GET", "/metrics")).body.decode()
        found = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        for name, value in {
            'transactions_ended_total{reason="hold_up"}': 1,
            "transactions_in_progress": 1,
            "transactions_min_start_timestamp_seconds": (topics.clock.now_ms - 5001) / 1000,
            "transactions_oldest_seconds": 5.001,
            'topic_blocked_seconds{topic="default/patient"}': 5.001,
        }.items():
            assert float(found[f"fairlead_messaging_{name}"]) == value, name


async def test_aborted_rows_are_marked_in_the_end(topics: Topics) -> None:
    """Once every row carries the mark, readers need not remember the pointer, and nothing changes for them."""
    pointer, snapshot = await topics.start()
    await topics.publish("t", *["x"] * 5000, tx=pointer)
    await topics.publish("t", "y")
    await topics.finish(pointer, "abort")
    await until(lambda: not topics.broker.unmarked)
    assert await topics.committed("t") == ["y"]
    assert await topics.payloads("t", transaction=snapshot) == ["y"]
    assert (await topics.finish(pointer, "commit")).body["error"]["state"] == "aborted"


async def test_topics_may_require_or_refuse_transactions(topics: Topics) -> None:
    await topics.create("must", transactional="required")
    await topics.create("mustnot", transactional="refused")
    pointer, _ = await topics.start()
    assert (await topics.ask("POST", "topics/must/publish", {"messages": [b64("a")]})).status == 400
    await topics.publish("must", "a", tx=pointer)
    body = {"transactionWritePointer": pointer, "messages": [b64("a")]}
    assert (await topics.ask("POST", "topics/mustnot/publish", body)).status == 400
    assert (await topics.ask("POST", "topics/mustnot/store", body)).status == 400
    await topics.publish("mustnot", "a")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
async def test_everybody_reads_the_same_whatever_the_page_size(topics: Topics, seed: int) -> None:
    """A random mix of ends; then pages of 1, 2, 3, 7, 100 and all give one sequence, each message once."""
    rng = random.Random(seed)
    expected: set[str] = set()
    open_: list[tuple[int, set[str]]] = []
    seen: list[str] = []
    position = None
    for number in range(60):
        name = str(number)
        how = rng.choice(["plain", "tx", "tx", "store", "finish", "read", "tick"])
        if how == "plain":
            await topics.publish("t", name)
            expected.add(name)
        elif how in ("tx", "store"):
            if not open_ or rng.random() < 0.5:
                open_.append(((await topics.start(timeout=5))[0], set()))
            pointer, messages = rng.choice(open_)
            if how == "tx" and not any(each.endswith("+") for each in messages):
                await topics.publish("t", name, tx=pointer)
            else:
                await topics.store("t", name, name + "+", tx=pointer)
                await topics.publish("t", tx=pointer)
                messages.add(name + "+")
            messages.add(name)
        elif how == "finish" and open_:
            pointer, messages = open_.pop(rng.randrange(len(open_)))
            end = rng.choice(["commit", "abort", "invalidate"])
            await topics.finish(pointer, end)
            expected |= messages if end == "commit" else set()
        elif how == "read":
            page = await topics.poll("t", startFrom=position, inclusive=False, limit=3, isolation="read_committed")
            seen += page.ids
            position = page.next_position
        else:
            topics.clock.forward(rng.randrange(-3, 4))
    topics.clock.forward(6000)
    await until(lambda: not topics.broker.unmarked and not topics.broker.in_progress)
    whole = await topics.poll("t", isolation="read_committed")
    assert set(whole.payloads) == expected and len(whole.payloads) == len(expected)
    assert whole.ids == sorted(whole.ids)
    assert seen == whole.ids[: len(seen)]
    for limit in (1, 2, 3, 7, 100):
        ids: list[str] = []
        position = None
        while page := await topics.poll(
            "t", startFrom=position, inclusive=False, limit=limit, isolation="read_committed"
        ):
            ids += page.ids
            position = page.ids[-1]
        assert ids == whole.ids


@pytest.mark.parametrize("how", ["abort", "invalidate"])
async def test_ending_without_commit_hides_everything(topics: Topics, how: str) -> None:
    pointer, _ = await topics.start()
    await topics.publish("t", "a", tx=pointer)
    await topics.store("t", "b", "c", tx=pointer)
    await topics.publish("t", tx=pointer)
    await topics.publish("t", "d")
    answer = await topics.finish(pointer, how)
    assert (answer.status, answer.body["state"]) == (200, "aborted" if how == "abort" else "invalid")
    assert await topics.committed("t") == ["d"]
    assert await topics.payloads("t") == ["a", "b", "c", "d"]


async def test_starts_around_a_payload_list(topics: Topics) -> None:
    await topics.publish("t", "m0")
    pointer, _ = await topics.start()
    for payload in ("p0", "p1", "p2", "p3", "p4"):
        await topics.store("t", payload, tx=pointer)
    await topics.publish("t", tx=pointer)
    await topics.publish("t", "m1")
    await topics.finish(pointer, "commit")
    whole = await topics.poll("t")
    assert whole.payloads == ["m0", "p0", "p1", "p2", "p3", "p4", "m1"]
    for index, message_id in enumerate(whole.ids):
        for limit in (1, 2, 3, 100):
            exclusive = await topics.poll("t", startFrom=message_id, inclusive=False, limit=limit)
            assert exclusive.ids == whole.ids[index + 1 :][:limit]
            assert (await topics.poll("t", startFrom=message_id, limit=limit)).ids == whole.ids[index:][:limit]
