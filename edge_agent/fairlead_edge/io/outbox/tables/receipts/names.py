"""What messages are called, kept by where they stand: in rows of ids, each numbered by its queue and first offset.

    accepted ─keep▶ row ─▶ its messages wait ─▶ they left (``departures``) ─forgotten▶ drop
                                └── left without a page: drop

One tree and no index: a row is found by its number, and by an id in a scan of all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import apsw

from fairlead_edge.io.outbox.tables import statements as sql
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.outbox.receipts import departure as pages
from fairlead_edge.outbox.receipts import named
from fairlead_edge.outbox.receipts.named import SPAN_MAX

OFFSETS: Final = 1 << 44
"""A queue has so many numbers: at ten thousand messages a second it lasts for fifty years, and then has no receipts."""
QUEUES: Final = 1 << 18
_LOOK_OFFSETS: Final = 16 * SPAN_MAX
"""What is looked through at once."""


def keep(
    connection: apsw.Connection, queue: int, epoch: int, enqueued: float, offsets: Sequence[int], marks: Sequence[bytes]
) -> None:
    """Messages of one run, accepted now."""
    if not 0 <= queue < QUEUES or not 0 <= offsets[0] <= offsets[-1] < OFFSETS:
        return
    for each in named.names(offsets, marks, float(enqueued)):
        row = (each.span, each.enqueued, each.ids, each.authors, each.offsets, each.checksum(queue, epoch))
        connection.execute(sql.KEEP_NAMES, (queue * OFFSETS + each.first, *row))


def drop_of(connection: apsw.Connection, queue: int, offsets: Iterable[int]) -> None:
    """These are gone, or forgotten: what neither waits nor is remembered needs no name any more."""
    for low, high in _stretches((offset, offset) for offset in offsets):
        _drop(connection, queue, low, high)


def drop_between(connection: apsw.Connection, queue: int, found: Iterable[tuple[int, int]]) -> None:
    """The same, of stretches from one offset to another; one that the disk made longer than any is left out."""
    possible = (each for each in found if _is_stretch(*each))
    for low, high in _stretches(possible):
        _drop(connection, queue, low, high)


def drop_below(connection: apsw.Connection) -> None:
    """What stands before all that waits or is remembered of its queue: an older program took it out."""
    for queue, *_ in rows(connection, sql.NUMBERED_QUEUES):
        if not 0 <= queue < QUEUES:
            continue
        base, needed = queue * OFFSETS, _needed_from(connection, queue, 0, 0)
        connection.execute(sql.DROP_NAMES_BETWEEN, (base, base + needed, base + needed))


def _is_stretch(low: object, high: object) -> bool:
    return isinstance(low, int) and isinstance(high, int) and 0 <= high - low < _LOOK_OFFSETS


def _stretches(found: Iterable[tuple[int, int]]) -> Iterable[tuple[int, int]]:
    """Neighbours together, up to what is looked through at once."""
    begun: tuple[int, int] | None = None
    for low, high in sorted(found):
        if begun is not None and low - begun[1] <= SPAN_MAX and max(high, begun[1]) - begun[0] < _LOOK_OFFSETS:
            begun = begun[0], max(high, begun[1])
            continue
        if begun is not None:
            yield begun
        begun = low, high
    if begun is not None:
        yield begun


def _drop(connection: apsw.Connection, queue: int, low: int, high: int) -> None:
    if not 0 <= queue < QUEUES or not 0 <= low <= high < OFFSETS:
        return
    base, begin = queue * OFFSETS, max(0, low - SPAN_MAX + 1)
    clear = max(begin, _needed_from(connection, queue, begin, begin - SPAN_MAX + 1))
    # Mostly the oldest are forgotten, and all that is needed stands behind them: one range, and no look at each row.
    connection.execute(sql.DROP_NAMES_BETWEEN, (base + begin, base + min(high + 1, clear), base + clear))
    if clear <= high:
        _drop_each(connection, queue, max(low, clear - SPAN_MAX + 1), high)


def _needed_from(connection: apsw.Connection, queue: int, waiting: int, remembered: int) -> int:
    """The first message that waits, from that offset on, or the first page from that one on."""
    [(next_waiting,)] = rows(connection, sql.NEXT_REFERENCE, (queue, waiting))
    [(next_page,)] = rows(connection, sql.NEXT_DEPARTED, (queue, remembered))
    found = [each for each in (next_waiting, next_page) if isinstance(each, int)]
    return min(max(0, min(found, default=OFFSETS)), OFFSETS)


def _drop_each(connection: apsw.Connection, queue: int, low: int, high: int) -> None:
    base = queue * OFFSETS
    between = (base + max(0, low - SPAN_MAX + 1), base + high, base + low)
    found: list[tuple[int, int, int]] = []
    going: list[int] = []
    for number, span in rows(connection, sql.NAMES_OF_NONE, (queue, base, *between)):
        if isinstance(span, int) and 0 <= span < SPAN_MAX:
            found.append((number, number - base, number - base + span))
        else:
            going.append(number)  # the disk changed it: no receipt comes of it
    remembered, begin = _remembered(connection, queue, found) if found else (0, 0)
    going += [
        number for number, first, last in found if not remembered >> (first - begin) & ((1 << (last - first + 1)) - 1)
    ]
    connection.executemany(sql.DROP_NAMES, [(number,) for number in going])


def _remembered(connection: apsw.Connection, queue: int, found: Sequence[tuple[int, int, int]]) -> tuple[int, int]:
    """Which offsets from the first to the last of these rows are in pages, a bit each, and the first one."""
    begin, end = found[0][1], max(last for *_, last in found)
    remembered = 0
    for first, last, among in rows(connection, sql.DEPARTED_BETWEEN, (queue, begin - SPAN_MAX + 1, end, begin)):
        if not isinstance(first, int) or not isinstance(last, int) or not isinstance(among, bytes):
            continue  # the disk changed even its types
        if 0 <= last - first < SPAN_MAX:
            shift = first - begin
            page = pages.bits(first, last, among)
            remembered |= page << shift if shift >= 0 else page >> -shift
    return remembered, begin
