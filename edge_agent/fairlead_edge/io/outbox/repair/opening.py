"""Before the outbox's file is used: it is looked through, and salvaged if damaged.

problem? ──no──▶ used
   └──yes──▶ salvage ──▶ from the beginning
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Final, NamedTuple

from fairlead_edge.io.file_access import PLAIN, FileAccess
from fairlead_edge.io.outbox import store_clock
from fairlead_edge.io.outbox.repair import salvage
from fairlead_edge.outbox.gaps import QueueGap
from fairlead_edge.outbox.queue_id import QueueId
from fairlead_edge.outbox.totals import OutboxTotals
from fairlead_wire.io import logs

SECONDS_MAX: Final = 0.5
"""How long a start looks through the file: a hundred thousand messages, or so."""
SALVAGES_MAX: Final = 2

_log = logs.get("edge.outbox")


class Sound(NamedTuple):
    """The file can be used."""

    salvaged: str
    """Why it was salvaged; "" when it was sound."""
    is_looked_through: bool
    """False: the time was too short for all of it."""


def make_sound(
    path: Path, kept: OutboxTotals | None, *, epoch: int, thorough: bool, access: FileAccess = PLAIN
) -> Sound:
    """``kept``: the totals beside the file.  ``thorough``: look at all of it, however long that takes.

    Raises ``apsw.Error`` or ``OSError`` when it cannot be used, or there is no room to salvage it.
    """
    seconds = None if thorough else SECONDS_MAX
    salvaged = ""
    for _ in range(SALVAGES_MAX):
        problem = salvage.problem(path, kept, seconds=seconds, access=access)
        if not problem:
            return Sound(salvaged, problem is not None)
        _log.error("store_damaged", path=str(path), reason=problem)
        at = store_clock.timestamp()
        report = salvage.run(path, kept=kept, epoch=epoch, at=at, new_id=new_id, access=access)
        for queue, gap in report.lost:
            log_gap(queue, gap)
        _log.warning(
            "store_salvaged",
            path=str(path),
            waiting=report.waiting,
            damaged=sum(gap.count for _, gap in report.lost),
            remedy=f"look at the disk's health; the damaged file is kept as {path.name}.damaged, it may be removed",
        )
        salvaged = problem
    return Sound(salvaged, is_looked_through=True)


def log_gap(queue: QueueId, gap: QueueGap) -> None:
    """Say in the log which messages the disk lost."""
    _log.error(
        "messages_damaged",
        queue=str(queue),
        topic=gap.topic,
        from_sequence=gap.first,
        to_sequence=gap.last,
        count=gap.count,
        reason=gap.reason,
        remedy="the disk changed what was stored; look at its health. What is sound goes on",
    )


def new_id() -> str:
    """An id for a record of a gap, as long as those of messages."""
    return secrets.token_hex(16)
