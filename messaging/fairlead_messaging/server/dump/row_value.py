"""Shows the values of a store to people, and checks them strictly: damaged values are reported, never guessed.

Bodies are shown only on request, and only up to a limit.
"""

from __future__ import annotations

import base64
import datetime
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import msgspec

from fairlead_messaging.api.message_id import NO_PAYLOAD, POSITION_BYTES, Position, decode_position, id_of
from fairlead_messaging.server import producers
from fairlead_messaging.server.dump.row_key import RowKey, Undecodable
from fairlead_messaging.server.log import keys, rows, running_totals, topic
from fairlead_messaging.server.producers import Epochs
from fairlead_messaging.server.subscriptions import subscription
from fairlead_messaging.server.transactions import transaction
from fairlead_messaging.server.transactions.manager import DIGEST_BYTES
from fairlead_messaging.server.transactions.transaction import Touched

INTERVALS_SHOWN_MAX = 20
"""How many intervals of a producer's page are shown; the line says how many there are."""

Fields = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowContext:
    """What the meaning of a row depends on besides the row itself.

    ``open_states``: the transactions that readers must know; ``generations``: of each topic, negative if it is deleted.
    """

    open_states: dict[int, str] = field(default_factory=dict)
    generations: dict[tuple[str, str], int] = field(default_factory=dict)
    body_bytes_max: int = 0

    def is_unreachable(self, key: RowKey) -> bool:
        """Whether the topic was deleted, and perhaps created again, later; unknown topics count as deleted."""
        if key.topic is None or key.generation is None:
            return False
        return self.generations.get(key.topic) != key.generation


def decode(key: RowKey, value: bytes, context: RowContext) -> Fields:
    """The fields to show of a row.  Raises: Undecodable with what is wrong."""
    shown = _of_key(key)
    try:
        shown |= _DECODERS[key.letter](key, value, context)
    except (msgspec.MsgspecError, ValueError, struct.error) as error:
        raise Undecodable(str(error)) from None
    if context.is_unreachable(key):
        shown["unreachable"] = True
    return shown


def moment(milliseconds: int) -> str:
    """RFC 3339 with milliseconds; the number itself beyond what a calendar holds."""
    try:
        time = datetime.datetime.fromtimestamp(milliseconds / 1000, datetime.UTC)
    except (ValueError, OverflowError, OSError):
        return str(milliseconds)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _of_key(key: RowKey) -> Fields:
    shown: Fields = {"table": key.table}
    if key.topic is not None:
        shown["topic"] = "/".join(key.topic)
    if key.generation is not None:
        shown["generation"] = key.generation
    return shown


def _topic(key: RowKey, value: bytes, _: RowContext) -> Fields:
    assert key.topic is not None
    found = topic.decode(*key.topic, value)
    return {
        "generation": abs(found.generation),
        "state": "living" if found.exists else "deleted",
        "ttl": found.ttl_seconds,
        "properties": dict(found.properties),
    }


def _message(key: RowKey, value: bytes, context: RowContext) -> Fields:
    assert key.position is not None
    row = _row(value)
    shown: Fields = {
        "id": id_of(key.position.encode(), NO_PAYLOAD).hex(),
        **_time("published", key.position),
        "state": _state(row.pointer, context),
    }
    if row.pointer:
        shown["transaction"] = abs(row.pointer)
    if row.ttl_seconds:
        shown["ttl"] = row.ttl_seconds
    if row.is_reference:
        if len(row.payload) != 2 * POSITION_BYTES or not row.pointer:
            raise Undecodable("a reference names a transaction and two positions")
        after, upto = decode_position(row.payload[:POSITION_BYTES]), decode_position(row.payload[POSITION_BYTES:])
        return shown | {"kind": "reference", "payloads": {"after": list(after), "upto": list(upto)}}
    return shown | {"kind": "message", **_body(row.payload, context)}


def _payload(key: RowKey, value: bytes, context: RowContext) -> Fields:
    assert key.position is not None and key.pointer is not None
    row = _row(value)
    if row.pointer or row.is_reference:
        raise Undecodable("a payload row has no pointer of its own")
    shown: Fields = {"transaction": key.pointer, **_time("written", key.position)}
    shown["transaction_state"] = context.open_states.get(key.pointer, "finished")
    if row.ttl_seconds:
        shown["ttl"] = row.ttl_seconds
    return shown | _body(row.payload, context)


def _transaction(key: RowKey, value: bytes, _: RowContext) -> Fields:
    found = transaction.decode(value)
    if found.pointer != key.pointer:
        raise Undecodable(f"the record is that of transaction {found.pointer}")
    shown: Fields = {
        "transaction": found.pointer,
        "state": found.state.value,
        "started": moment(found.started_ms),
        "expires": moment(found.expires_ms),
        "timeout": found.timeout_seconds,
    }
    if found.finished_ms:
        shown |= {"ended": moment(found.finished_ms), "ended_by": found.ended_by, "marked": found.rows_marked}
    return shown | {
        "changed_keys": len(found.changed) // DIGEST_BYTES,
        "topics": [_touched(each) for each in found.touched],
    }


def _touched(each: Touched) -> Fields:
    return {
        "topic": f"{each.namespace}/{each.name}",
        "generation": each.generation,
        "uncommitted_from": list(each.first) if each.first is not None else None,
        "uncommitted_upto": list(each.last) if each.last is not None else None,
        "stored_messages": each.pending_rows,
        "stored_bytes": each.pending_bytes,
    }


def _producer(key: RowKey, value: bytes, _: RowContext) -> Fields:
    if len(value) < 8 or (value[0] == 0 and len(value) % 16 != 8) or value[0] > 1 or (value[0] and len(value) < 16):
        raise Undecodable(f"no page of numbers has {len(value)} bytes")
    known = producers.decode(value)
    pairs = list(zip(known.lows, known.highs, strict=True))
    if any(low > high for low, high in pairs) or known.lows != sorted(known.lows):
        raise Undecodable("the numbers are not in order")
    return {
        "producer": key.name,
        "epoch": key.epoch,
        "first": key.first,
        "updated": moment(producers.updated_ms(value)),
        "intervals": len(pairs),
        "known": [list(pair) for pair in pairs[:INTERVALS_SHOWN_MAX]],
    }


def _fence(key: RowKey, value: bytes, _: RowContext) -> Fields:
    if len(value) != 16:
        raise Undecodable(f"a fence has 16 bytes, not {len(value)}")
    epochs = Epochs(value)
    return {"producer": key.name, "newest_epoch": epochs.newest, "fenced_epoch": epochs.fenced}


def _subscription(key: RowKey, value: bytes, _: RowContext) -> Fields:
    shown: Fields = msgspec.to_builtins(subscription.decode(value))
    return {"name": key.name, **shown, "url": _without_secrets(shown["url"])}


def _reader(key: RowKey, value: bytes, _: RowContext) -> Fields:
    found = msgspec.json.decode(value)
    if not isinstance(found, dict):
        raise Undecodable("a reader's record is an object")
    return {"name": key.name, **found}


def _log_end(key: RowKey, value: bytes, _: RowContext) -> Fields:
    if len(value) != 30:
        raise Undecodable(f"the end of a log has 30 bytes, not {len(value)}")
    end = running_totals.decode_log_end(value)
    return {
        "index": "log_end", **_time("last", end.position), "generation": end.generation, "messages": end.total.rows,
        "bytes": end.total.size,
    }  # fmt: skip


def _mark(key: RowKey, value: bytes, _: RowContext) -> Fields:
    assert key.position is not None
    if len(value) != 16:
        raise Undecodable(f"a running total has 16 bytes, not {len(value)}")
    total = running_totals.decode(value)
    return {"index": "running_total", **_time("upto", key.position), "messages": total.rows, "bytes": total.size}


def _expiry(key: RowKey, value: bytes, _: RowContext) -> Fields:
    assert key.position is not None and key.expires_ms is not None
    return {"index": "expiry", "expires": moment(key.expires_ms), **_time("published", key.position)}


def _reference(key: RowKey, value: bytes, _: RowContext) -> Fields:
    assert key.position is not None
    if len(value) < 8 + 2 * POSITION_BYTES:
        raise Undecodable("it names no payload rows")
    span = value[-2 * POSITION_BYTES :]
    return {
        "index": "reference", **_time("published", key.position),
        "transaction": int.from_bytes(value[-2 * POSITION_BYTES - 8 : -2 * POSITION_BYTES], "big"),
        "payloads": {
            "after": list(decode_position(span[:POSITION_BYTES])), "upto": list(decode_position(span[POSITION_BYTES:])),
        },
    }  # fmt: skip


def _removed(key: RowKey, value: bytes, _: RowContext) -> Fields:
    if len(value) != POSITION_BYTES:
        raise Undecodable(f"a position has {POSITION_BYTES} bytes, not {len(value)}")
    return {"index": "removed", **_time("upto", decode_position(value))}


def _long(key: RowKey, value: bytes, _: RowContext) -> Fields:
    return {"index": "long_commit", "transaction": key.pointer}


def _service(key: RowKey, value: bytes, _: RowContext) -> Fields:
    if key.name == "pointer":
        return {"name": key.name, "value": int.from_bytes(value, "big")}
    return {"name": key.name, "value": value.decode()}


_DECODERS: dict[bytes, Callable[[RowKey, bytes, RowContext], Fields]] = {
    keys.METADATA: _topic,
    keys.MESSAGE: _message,
    keys.PAYLOAD: _payload,
    keys.OPEN: _transaction,
    keys.FINISHED: _transaction,
    keys.PRODUCER: _producer,
    keys.FENCE: _fence,
    keys.SUBSCRIPTION: _subscription,
    keys.READER: _reader,
    keys.LOG_END: _log_end,
    keys.MARK: _mark,
    keys.EXPIRY: _expiry,
    keys.REFERENCE: _reference,
    keys.REMOVED: _removed,
    keys.LONG: _long,
    keys.SERVICE: _service,
}


def _row(value: bytes) -> rows.MessageRow:
    if not value:
        raise Undecodable("the value is empty")
    flags = value[0]
    if flags & ~(rows.HAS_POINTER | rows.HAS_TTL | rows.IS_REFERENCE):
        raise Undecodable(f"no row has the flags {flags}")
    needed = 1 + (8 if flags & rows.HAS_POINTER else 0) + (4 if flags & rows.HAS_TTL else 0)
    if len(value) < needed:
        raise Undecodable(f"the value is cut short: {len(value)} bytes of at least {needed}")
    return rows.decode(value)


def _state(pointer: int, context: RowContext) -> str:
    """The state in the words of `fairlead topics inspect`."""
    if pointer < 0:
        return "hidden"
    state = context.open_states.get(pointer, "committed") if pointer else "committed"
    return {"committed": "visible", "in_progress": "undecided"}.get(state, "hidden")


def _time(name: str, position: Position) -> Fields:
    return {name: moment(position.timestamp), f"{name}_ms": position.timestamp, "sequence": position.sequence}


def _body(payload: bytes, context: RowContext) -> Fields:
    shown: Fields = {"bytes": len(payload)}
    if context.body_bytes_max:
        shown["body"] = base64.b64encode(payload[: context.body_bytes_max]).decode()
        if len(payload) > context.body_bytes_max:
            shown["body_cut"] = True
    return shown


def _without_secrets(url: str) -> str:
    """The URL without user, password and query, which may be secrets."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "…" if parts.query else "", ""))
