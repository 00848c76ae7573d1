"""What waits for a node: in order, one of each input on its way, and how far all are done."""

from __future__ import annotations

import random

from fairlead_hub.inputs import node_queue
from fairlead_hub.inputs.node_queue import NodeQueue, WaitingInput
from fairlead_wire import message


def put(queue: NodeQueue, number: int, *, place: str = "a", expires: float = 100.0, size: int = 10) -> WaitingInput:
    before, queue.read_upto = queue.read_upto, f"{number:040x}"
    found = WaitingInput(
        id=f"{number:032x}", position=queue.read_upto, before=before, place=("m", place), expires=expires, size=size
    )
    queue.add(found)
    return found


def due(queue: NodeQueue, now: float = 0.0) -> list[int]:
    return [int(each.id, 16) for each in queue.due(now)]


def test_one_of_each_input_is_on_its_way() -> None:
    """The next one follows its ack; other inputs do not wait for it."""
    queue = NodeQueue()
    first, _, other = put(queue, 1), put(queue, 2), put(queue, 3, place="b")
    assert due(queue) == [1, 3]
    queue.sent(first.id)
    queue.sent(other.id)
    assert due(queue) == []
    queue.done(first.id)
    assert due(queue) == [2] and queue.done(first.id) is None


def test_the_checkpoint_passes_nothing_that_is_not_done() -> None:
    """What is done behind one that waits is sent again by a hub that starts anew; the node knows it."""
    queue = NodeQueue()
    one, two = put(queue, 1), put(queue, 2, place="b")
    assert queue.checkpoint == node_queue.AT_START
    queue.done(two.id)
    assert queue.checkpoint == node_queue.AT_START
    queue.done(one.id)
    assert queue.checkpoint == queue.read_upto


def test_what_is_put_off_holds_up_what_is_behind_it() -> None:
    """Order, over a node whose store is full."""
    queue = NodeQueue()
    first = put(queue, 1)
    put(queue, 2)
    queue.sent(first.id)
    queue.put_off(first.id, until=5.0)
    assert due(queue, 4.9) == [] and queue.next_time(4.9) == 5.0 and due(queue, 5.0) == [1]
    queue.put_off(first.id, until=50.0)
    queue.session_ended()
    assert due(queue, 6.0) == [1], "a new session asks at once"


def test_what_expires_is_never_sent_unless_it_is_on_its_way() -> None:
    """The node says what became of that."""
    queue = NodeQueue()
    first, second = put(queue, 1, expires=10.0), put(queue, 2, expires=10.0)
    queue.sent(first.id)
    assert queue.next_time(0.0) == 10.0
    assert queue.expired(10.0) == [second] and len(queue) == 1
    queue.session_ended()
    assert queue.expired(10.0) == [first] and queue.next_time(10.0) is None and queue.bytes == 0


def test_room_is_bounded_by_messages_and_bytes() -> None:
    """One alone always fits."""
    queue = NodeQueue()
    assert queue.has_room(1, 10 * node_queue.BYTES_MAX)
    put(queue, 1, size=node_queue.BYTES_MAX)
    assert not queue.has_room(1, 1)
    small = NodeQueue()
    for number in range(node_queue.MESSAGES_MAX):
        put(small, number + 1)
    assert not small.has_room(1, 1)
    assert len(due(small)) == 1


def test_the_window_bounds_what_is_on_its_way() -> None:
    """Over all inputs."""
    queue = NodeQueue()
    every = [put(queue, number + 1, place=str(number)) for number in range(2 * message.INPUT_WINDOW)]
    for each in queue.due(0.0):
        queue.sent(each.id)
    assert due(queue) == []
    queue.done(every[0].id)
    assert len(due(queue)) == 1


def test_the_same_id_waits_once() -> None:
    """Sent twice under one key."""
    queue = NodeQueue()
    first = put(queue, 1)
    assert not queue.add(first) and len(queue) == 1


def test_whatever_happens_order_holds_and_nothing_is_passed() -> None:
    """Random steps against the two laws."""
    draw = random.Random(23)
    for _ in range(200):
        queue, delivered, number, now = NodeQueue(), list[int](), 0, 0.0
        flying: list[WaitingInput] = []
        for _ in range(60):
            now += draw.random()
            match draw.randrange(6):
                case 0 | 1:
                    number += 1
                    put(queue, number, place=draw.choice("ab"), expires=now + draw.choice((2.0, 1000.0)))
                case 2:
                    for each in queue.due(now):
                        queue.sent(each.id)
                        flying.append(each)
                case 3 if flying:
                    each = flying.pop(draw.randrange(len(flying)))
                    assert queue.done(each.id) is each
                    delivered.append(int(each.id, 16))
                case 4 if flying:
                    each = flying.pop(0)
                    queue.put_off(each.id, now + draw.random())
                case 5:
                    queue.session_ended()
                    flying.clear()
                    queue.expired(now)
            waiting = [int(each.position, 16) for each in queue._waiting.values()]
            assert all(position > int(queue.checkpoint or "0", 16) for position in waiting)
            assert queue.bytes == 10 * len(queue)
            assert len({each.place for each in flying}) == len(flying)
