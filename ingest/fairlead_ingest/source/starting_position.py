"""Where a pipeline begins to read when it has no position yet: a name, or a moment.

Apart from the settings, because Spark's workers need it and they are started often: they load no settings model.
"""

from __future__ import annotations

import datetime
from typing import Any, Final

from fairlead_wire.validation import mistakes

NAMED: Final = ("earliest", "latest", "table")


def parse(position: Any) -> str | int:
    """As the source takes it: a name, or milliseconds since 1970.  A time without a zone is UTC.

    Raises ``ValueError``.
    """
    if isinstance(position, str) and position in NAMED:
        return position
    if isinstance(position, int) and not isinstance(position, bool):
        if position < 0:
            raise ValueError(f"must be milliseconds since 1970, is {position}")
        return position
    moment = position
    if isinstance(position, str):
        try:
            moment = datetime.datetime.fromisoformat(position)
        except ValueError:
            raise ValueError(f"must be {', '.join(NAMED)} or an ISO time, is {mistakes.shown(position)}") from None
    if not isinstance(moment, datetime.datetime):
        raise ValueError(f"must be a name, an ISO time or milliseconds, is {mistakes.shown(position)}")
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return int(moment.timestamp() * 1000)
