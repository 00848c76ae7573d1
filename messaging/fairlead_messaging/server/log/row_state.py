"""What a reader may know of a row: committed, aborted, or uncommitted as yet.

Reading asks through ``RowStates`` and does not know transactions; ``transactions.visibility`` answers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from fairlead_messaging.api.message_id import MessageId, timestamp_of


class RowState(Enum):
    """COMMITTED: show the row.  ABORTED: it will never be shown.  UNCOMMITTED: end the scan before it."""

    COMMITTED = 1
    ABORTED = 2
    UNCOMMITTED = 3


RowStates = Callable[[int], RowState]
"""The state of a row by its pointer, which is negative when the row was rolled back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncommitted:
    """Ids from ``message_id`` on may still change; ``pointer`` is None where only the search ended there."""

    message_id: MessageId
    pointer: int | None

    @property
    def since_ms(self) -> int:
        """When it was published, milliseconds since 1970."""
        return timestamp_of(self.message_id)
