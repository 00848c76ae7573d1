"""The example program that follows a ConfigMap on a node, as the demo reads what it printed."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any


class Follower:
    """``log`` is what `examples/watch/follow.py` prints: a line of JSON for each state of the object."""

    def __init__(self, log: Path) -> None:
        self._log = log

    def states(self) -> list[dict[str, Any]]:
        """The states it received, in order: ``at`` (Unix seconds) and ``data`` (None: there was no such object)."""
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        found: list[dict[str, Any]] = []
        for line in lines:
            with contextlib.suppress(ValueError):  # the last line may be half written
                found.append(json.loads(line))
        return found

    def revisions(self) -> list[str]:
        """The values of the key `revision`, in order; "" where there was no object."""
        return [(state["data"] or {}).get("revision", "") for state in self.states()]
