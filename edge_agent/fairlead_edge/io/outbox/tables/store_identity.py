"""Whose outbox it is, and what its clock shows."""

from __future__ import annotations

import apsw

from fairlead_edge.errors import NotOurs
from fairlead_edge.io.outbox.tables import statements as sql
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.outbox.age import Stamp


def load_stamp(connection: apsw.Connection) -> Stamp | None:
    """The store's clock as it was written down last."""
    found = rows(connection, sql.CLOCK)
    if not found:
        return None
    boot_id, boot_seconds, wall_seconds, age_seconds = found[0]
    return Stamp(boot_id=boot_id, boot_seconds=boot_seconds, wall_seconds=wall_seconds, age_seconds=age_seconds)


def save_stamp(connection: apsw.Connection, stamp: Stamp) -> None:
    """Write the store's clock down."""
    connection.execute(sql.SET_CLOCK, (stamp.boot_id, stamp.boot_seconds, stamp.wall_seconds, stamp.age_seconds))


def own(connection: apsw.Connection, node: str) -> None:
    """The store is this node's from now on.  Raises ``NotOurs`` while it holds what another one accepted."""
    owner = rows(connection, sql.OWNER)
    if owner == [(node,)]:
        return
    [(held,)] = rows(connection, sql.HELD)
    if owner and held:
        raise NotOurs(owner[0][0], node, held)
    connection.execute(sql.SET_OWNER, (node,))
