"""A damaged object store becomes a sound one: what can be read is held on, and the hub sends the rest again.

Nothing is lost by this that the cluster does not have: the next session opens with what is held now.
"""

from __future__ import annotations

from pathlib import Path

import apsw

from fairlead_edge.errors import StoreUnusable
from fairlead_edge.io.objects import schema
from fairlead_edge.io.sqlite import salvage


def problem(path: Path) -> str:
    """What is wrong with the structure of the file at ``path``; "" when nothing is, or there is none."""
    if salvage.is_unfinished(path):
        return "an earlier salvage did not come to its end"
    if not path.exists():
        return ""
    if salvage.lost_its_end(path):
        return "its end is missing"
    if wrong := salvage.head_problem(path):
        return wrong
    try:
        connection = apsw.Connection(str(path))
        try:
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            connection.set_busy_timeout(5_000)
            if not connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall():
                return ""
            found = int(connection.pragma("user_version") or 0)
            return salvage.version_problem(path, found, schema.SCHEMA) or audit(connection)
        finally:
            connection.close()
    except (apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError) as error:
        if salvage.is_strange(path, error):
            raise
        return str(error) or type(error).__name__


def audit(connection: apsw.Connection) -> str:
    """As ``sqlite.writer`` asks it."""
    [(found,)] = connection.execute("PRAGMA integrity_check(1)").fetchall()
    if found != "ok":
        return str(found)
    model = apsw.Connection(":memory:")
    if int(connection.pragma("user_version") or 0) == schema.SCHEMA:
        schema.migrate(model, 0)
    return salvage.lacks(connection, model)


def run(path: Path) -> int:
    """Returns how many objects are held on.  Raises ``StoreUnusable`` when there is no room for the new file."""
    kept: list[int] = []

    def fill(source: apsw.Connection, target: apsw.Connection) -> None:
        is_old = "checksum" not in salvage.columns(source, "objects") and bool(salvage.columns(source, "objects"))
        if is_old:  # rows as they were; the opening brings them to the present version
            target.execute(schema.TABLES)
            target.pragma("user_version", 1)
        else:
            schema.migrate(target, 0)
        for table in ("facts", "kinds"):
            salvage.copy_small(source, target, table)
        for table in ("objects", "fallbacks"):
            salvage.copy(source, target, table)
        kept.append(schema.rows(target, "SELECT count(*) FROM objects")[0][0])

    try:
        salvage.salvage(path, fill=fill)
    except (OSError, apsw.Error) as error:
        raise StoreUnusable(f"{path}: is damaged and there is no room to salvage it: {error}") from error
    return kept[0] if kept else 0
