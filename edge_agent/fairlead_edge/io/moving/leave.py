"""``fairlead edge leave``: takes a node out of service.

    ask the agent ▸ it delivers, refuses producers, removes identity and objects, and exits ▸ purge, if requested

Running the same command again resumes it.  Undelivered messages, messages for modules and dead letters stay on the disk
until a purge, which deletes everything that agents write into the folder, and nothing else.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from fairlead_edge.drain import Undelivered
from fairlead_edge.errors import StoreUnusable
from fairlead_edge.io import data_dir
from fairlead_edge.io.moving import move as moves
from fairlead_edge.io.moving import switch
from fairlead_edge.io.moving.files import OUT_OF_SERVICE, LeftService, MoveFiles, MovePlan
from fairlead_edge.io.moving.move import CannotMove, Say

END_SECONDS_MAX: Final = 60.0
"""How long an agent may take to exit after the switch."""


class LeaveOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the command line.  ``undelivered`` "take-along": leave at the deadline; messages stay on the disk."""

    config: Path
    deadline_seconds: float = moves.DEADLINE_SECONDS
    undelivered: Undelivered = "stay"
    purge: bool = False


class LeaveDone(msgspec.Struct, frozen=True, kw_only=True):
    """The result.  ``left_alone``: names of files that a purge did not delete, because they are not the agent's."""

    left: LeftService
    left_alone: tuple[str, ...] = ()


async def leave(wanted: LeaveOptions, environ: Mapping[str, str], say: Say) -> LeaveDone:
    """Take the node out of service.  ``say(what, text)`` reports each step.  Raises a ``FairleadError``."""
    settings, files = moves.load_device(wanted.config, environ)
    with moves.exclusive(files):
        if files.left() is None:
            await _leave(wanted, files, settings.node, settings.text("hub_url"), say)
        left = files.left()
        assert left is not None
        if not wanted.purge:
            return LeaveDone(left=left)
        await _purge(files, left, settings.ca_file, say)
        return LeaveDone(left=files.left() or left, left_alone=_others(files.data_dir))


def bytes_kept(config: Path, environ: Mapping[str, str]) -> tuple[str, Path, int]:
    """What a purge would delete: the node's name, its folder, and the size in bytes.  Raises ``CannotMove``."""
    settings, files = moves.load_device(config, environ)
    found = [path for pattern in switch.WRITTEN for path in files.data_dir.glob(pattern)]
    parts = [part for path in found for part in (path.rglob("*") if path.is_dir() else (path,))]
    return settings.node, files.data_dir, sum(data_dir.size(part) for part in parts if part.is_file())


async def _leave(wanted: LeaveOptions, files: MoveFiles, node: str, hub: str, say: Say) -> None:
    plan = files.plan() or files.switched()
    if plan is not None and plan.until != OUT_OF_SERVICE:
        raise CannotMove(moves.under_way(plan))
    if plan is None:
        plan = MovePlan(
            node=node,
            since=hub,
            until=OUT_OF_SERVICE,
            deadline_seconds=wanted.deadline_seconds,
            undelivered=wanted.undelivered,
        )
        files.make_folder()
        files.ask(plan)
    if not moves.is_running(files.data_dir):
        if files.switched() is None and wanted.undelivered == "stay":
            say("agent", "is not running: start it (systemctl start fairlead-edge), and it will deliver and leave")
        else:
            _leave_without_agent(files)
            return
    await moves.follow(plan, files, say)


def _leave_without_agent(files: MoveFiles) -> None:
    with _Locked(files.data_dir):
        if files.plan() is not None:
            files.switch()
        if (plan := files.switched()) is not None:
            switch.leave(files, plan)


async def _purge(files: MoveFiles, left: LeftService, ca_file: Path, say: Say) -> None:
    until = time.monotonic() + END_SECONDS_MAX
    while moves.is_running(files.data_dir):
        if time.monotonic() > until:
            raise CannotMove("the node has left, but its agent is still running: stop it, then purge"
                             " (systemctl stop fairlead-edge)")  # fmt: skip
        await asyncio.sleep(moves.POLL_SECONDS)
    with _Locked(files.data_dir):
        switch.remove(files.data_dir, switch.WRITTEN)
        files.leave(msgspec.structs.replace(left, waiting=0, purged=True))
    switch.remove(ca_file.parent, (ca_file.name,))
    say("purged", str(files.data_dir))


def _others(folder: Path) -> tuple[str, ...]:
    return tuple(sorted(found.name for found in folder.iterdir() if found.name not in ("lock", "left.json")))


class _Locked:
    """Locks the folder as an agent would."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> None:
        try:
            self._lock = data_dir.lock(self._folder)
        except StoreUnusable as error:
            raise CannotMove(f"{error}: run the same command again") from None

    def __exit__(self, *_: object) -> None:
        os.close(self._lock)
