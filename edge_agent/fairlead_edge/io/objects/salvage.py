"""A damaged object store becomes a sound one: what can be read is held on, and the hub sends the rest again.

Nothing is lost by this that the cluster does not have: the next session opens with what is held now.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import apsw

from fairlead_edge.errors import StoreUnusable
from fairlead_edge.io.file_access import PLAIN, FileAccess
from fairlead_edge.io.objects import schema
from fairlead_edge.io.objects import statements as sql
from fairlead_edge.io.sqlite import salvage
from fairlead_edge.io.sqlite import statements as sqlite
from fairlead_edge.io.sqlite.rows import rows


def problem(path: Path, access: FileAccess = PLAIN) -> str:
    """What is wrong with the structure of the file at ``path``; "" when nothing is, or there is none."""
    return salvage.problem(path, partial(_look, path), model=schema.model, access=access) or ""


def _look(path: Path, connection: apsw.Connection) -> str:
    if not rows(connection, sqlite.ANYTHING):
        return ""
    [(found,)] = rows(connection, sqlite.USER_VERSION)
    return salvage.version_problem(path, found, schema.VERSION) or audit(connection)


def audit(connection: apsw.Connection) -> str:
    """What ``sqlite.writer`` calls where a statement failed."""
    [(found,)] = rows(connection, sqlite.INTEGRITY_CHECK)
    if found != "ok":
        return str(found)
    [(version,)] = rows(connection, sqlite.USER_VERSION)
    model = schema.model(version if version == schema.VERSION else 0)
    return salvage.lacks(connection, model) if model is not None else ""


def run(path: Path, access: FileAccess = PLAIN) -> int:
    """Returns how many objects are held on.  Raises ``StoreUnusable`` when there is no room for the new file."""
    kept: list[int] = []

    def fill(source: apsw.Connection, target: apsw.Connection) -> None:
        schema.create(target)
        for table in ("facts", "kinds"):
            salvage.copy_small(source, target, table)
        for table in ("objects", "fallbacks"):
            salvage.copy(source, target, table)
        kept.append(rows(target, sql.COUNT)[0][0])

    try:
        salvage.salvage(path, fill=fill, access=access)
    except (OSError, apsw.Error) as error:
        raise StoreUnusable(f"{path}: is damaged and there is no room to salvage it: {error}") from error
    return kept[0] if kept else 0
