"""Rolling back one publish of a transaction, and marking the rows of a transaction that did not commit.

Both write rows again with their pointer negated, so both look at the batch being written first: a row that cleaning
removes in it must not come back.  Both are done in slices, so that no turn of the event loop does more than a bounded
piece; what is left stands in the transaction's record (``Touched.rolling``), and a commit waits for it.
"""

from __future__ import annotations

from itertools import islice

from fairlead_messaging.api.errors import Conflict, Refused, Unavailable
from fairlead_messaging.api.message_id import POSITION_BYTES, SEQUENCE_MAX, Position, decode_position
from fairlead_messaging.server.log import keys, rows
from fairlead_messaging.server.log.topic import TopicGeneration
from fairlead_messaging.server.log.topic_log import TopicLog
from fairlead_messaging.server.store.batch import Batch
from fairlead_messaging.server.store.ordered_kv import OrderedKV
from fairlead_messaging.server.transactions.commands import Rollback
from fairlead_messaging.server.transactions.manager import TransactionManager
from fairlead_messaging.server.transactions.transaction import Rolling, Touched, Transaction, TransactionState

LOOK_AHEAD_ROWS_MAX = 4096
"""Rows looked at to find where readers may go on to after a rollback."""


def roll_back(
    kv: OrderedKV, log: TopicLog, transactions: TransactionManager, command: Rollback, batch: Batch, now_ms: int
) -> None:
    """Mark the rows of one publish, or begin to: ``go_on`` does the rest.  Only rows of the pointer itself are touched.

    Raises: NotFound; Refused for a detail that this service did not give out; Conflict after a commit; Unavailable
    while another rollback of this transaction in this topic is being carried out.
    """
    topic = log.living(command.namespace, command.name)
    found = transactions.find(command.pointer)
    touched = found.in_topic(topic) if found is not None else None
    if found is None or touched is None or touched.last is None or not command.first <= command.last <= touched.last:
        raise _forged()
    if found.state is TransactionState.COMMITTED:
        raise Conflict(
            f"transaction {command.pointer} is committed", code="transaction_not_in_progress", state="committed"
        )
    _check_ends(kv, topic, command, now_ms, touched)
    if found.state is not TransactionState.IN_PROGRESS:
        return  # every row is hidden already, or about to be
    if touched.rolling is not None:
        if (touched.rolling.first, touched.rolling.last) != (command.first, command.last):
            raise Unavailable("another rollback of this transaction is being carried out", code="rolling_back")
        return
    _slice(kv, transactions, found, touched, Rolling(command.first, command.last, command.first), batch)


def go_on(kv: OrderedKV, transactions: TransactionManager, batch: Batch) -> bool:
    """The next slice of one rollback that is not done; False when there is none."""
    for found in transactions.rolling:
        for touched in found.touched:
            if touched.rolling is not None:
                _slice(kv, transactions, found, touched, touched.rolling, batch)
                return True
    return False


def _slice(
    kv: OrderedKV, transactions: TransactionManager, found: Transaction, touched: Touched, asked: Rolling, batch: Batch
) -> None:
    reached = transactions.mark(found.pointer, touched.topic, asked.reached, asked.last, batch)
    if reached is not None:
        touched.rolling = Rolling(asked.first, asked.last, reached)
        transactions.write(found, batch)
        return
    has_moved = touched.first is not None and asked.first <= touched.first <= asked.last
    if has_moved:
        assert touched.last is not None
        is_last = asked.last >= touched.last
        touched.first = None if is_last else _next_own(kv, touched.topic, found.pointer, asked.last, touched.last)
    if has_moved or touched.rolling is not None:
        touched.rolling = None
        transactions.write(found, batch)


def _check_ends(kv: OrderedKV, topic: TopicGeneration, command: Rollback, now_ms: int, touched: Touched) -> None:
    """Raises: Refused unless the detail begins and ends at a row of its pointer, or where one may have expired."""
    prefix = keys.table(keys.MESSAGE, topic)
    # The topic's time to live may have been shorter for a while: only the mark says what went then.
    removed = kv.get(keys.table(keys.REMOVED, topic)) or b""
    for end in (command.first, command.last):
        value = kv.get(prefix + end.encode())
        is_own = value is not None and abs(rows.decode(value).pointer) == command.pointer
        is_gone = value is None and touched.spans(end) and end.encode() <= removed
        if not is_own and not is_gone and not touched.may_be_removed(end, topic, now_ms):
            raise _forged()


def _next_own(kv: OrderedKV, topic: TopicGeneration, pointer: int, after: Position, last: Position) -> Position | None:
    """The transaction's first row after those rolled back that is not rolled back itself: readers wait for no other.

    None when there is none; a place before it where it is not found at once, or where not all its rows are stored yet.
    """
    prefix = keys.table(keys.MESSAGE, topic)
    reached = _successor(after)
    with kv.snapshot() as snapshot:
        if snapshot.get(prefix + last.encode()) is None:
            return reached
        found = snapshot.scan(prefix + reached.encode(), prefix + last.encode() + b"\x00")
        for key, value in islice(found, LOOK_AHEAD_ROWS_MAX):
            reached = decode_position(key[-POSITION_BYTES:])
            if rows.decode(value).pointer == pointer:
                return reached
    return None if reached == last else reached


def _successor(position: Position) -> Position:
    if position.sequence < SEQUENCE_MAX:
        return Position(position.timestamp, position.sequence + 1)
    return Position(position.timestamp + 1, 0)


def _forged() -> Refused:
    return Refused("this is not what a publish of this topic answered", code="bad_rollback")
