"""Rows of one statement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw


def rows(connection: apsw.Connection, statement: str, bindings: Sequence[Any] = ()) -> list[Any]:
    """All rows of a statement."""
    return connection.execute(statement, tuple(bindings)).fetchall()
