"""Arrow pages as bulk readers get them.  pyarrow is imported when the first one is read: most clients need none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairlead_messaging.api import headers
from fairlead_messaging.client.response import Response
from fairlead_wire.errors import RemoteError

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrowPage:
    """One answer to a bulk poll: rows ``id`` (binary), ``ts`` (timestamp[us, UTC]), ``payload`` (binary)."""

    table: pa.Table
    next_position: str
    generation: int
    stable: str
    oldest: str
    service: str
    hidden: int = 0
    """Messages of rolled-back transactions that were passed over."""


def read(after: str, response: Response) -> ArrowPage:
    """``after``: where the page was asked to begin.  Raises ``RemoteError`` for what is no Arrow stream."""
    import pyarrow as pa

    try:
        with pa.ipc.open_stream(pa.py_buffer(response.body)) as stream:
            table = stream.read_all()
        return ArrowPage(
            table=table,
            next_position=response.header(headers.NEXT_POSITION) or after,
            generation=int(response.header(headers.GENERATION) or 0),
            stable=response.header(headers.STABLE_POSITION) or "",
            oldest=response.header(headers.OLDEST_POSITION) or "",
            service=response.header(headers.SERVICE) or "",
            hidden=int(response.header(headers.HIDDEN_MESSAGES) or 0),
        )
    except (pa.ArrowException, OSError, ValueError) as error:
        raise RemoteError(f"the service answered a poll with no Arrow stream: {error}") from error
