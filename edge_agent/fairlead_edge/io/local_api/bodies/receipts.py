"""Where a message is, as it is answered."""

from __future__ import annotations

from typing import Literal

import msgspec


class ReceiptAccepted(msgspec.Struct, frozen=True, kw_only=True):
    """When this node had it on disk; null of a message that is known from the dead letters alone."""

    at: str | None
    age_seconds: float | None


class ReceiptTopic(msgspec.Struct, frozen=True, kw_only=True):
    """Where it stands in its topic: at `position`, or at it or before where `exact` is false; null: it is not said.
    `service` and `generation`: of which topic; `at`: when the node had the hub's answer."""

    topic: str
    position: str | None
    exact: bool
    generation: int | None
    service: str | None
    at: str


class ReceiptTable(msgspec.Struct, frozen=True, kw_only=True):
    """How far a table has read its topic: up to `position`, in `batch` and `version` or before. `in_table`: beyond the
    message. `row` true: it has a row; null: a row, or it was set aside (dead letter, filter). `as_of`: when the hub
    said so."""

    in_table: bool
    reader: str
    table: str
    position: str
    batch: int | None
    version: int | None
    row: bool | None
    as_of: str


class ReceiptLetter(msgspec.Struct, frozen=True, kw_only=True):
    """Its dead letter on this node."""

    number: int
    at: str
    code: str
    reason: str


ReceiptState = Literal["accepted", "in_topic", "in_table", "expired", "evicted", "dead_lettered"]


class ReceiptDelivery(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One way it goes. While it waits: how many are `ahead` of it (counted to 100,000), whether it is `in_flight`, and
    when it expires."""

    endpoint: str
    priority: int
    topic: str | None
    state: ReceiptState
    ahead: int = 0
    in_flight: bool = False
    expires_in_seconds: float | None = None
    at: str = ""
    in_topic: ReceiptTopic | None = None
    in_table: ReceiptTable | None = None
    tables: list[ReceiptTable] = []
    note: str = ""
    dead_letter: ReceiptLetter | None = None


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """Where a message is: `state` is that of the way up that is least far. `as_of`: when the hub last said how far
    tables are; `online`: it can be asked now."""

    id: str
    state: ReceiptState
    accepted: ReceiptAccepted
    in_topic: ReceiptTopic | None
    in_table: ReceiptTable | None
    as_of: str | None
    online: bool
    deliveries: list[ReceiptDelivery]
