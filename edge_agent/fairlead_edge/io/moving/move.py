"""``fairlead edge move``: the node moves to another hub, with what it accepted delivered to the old one.

    join the new hub, into a folder of its own ▸ ask the agent ▸ it delivers, closes, switches ▸ the settings file

The agent goes on meanwhile; it is the one who switches.  The same command again goes on where it was.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import fcntl
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from fairlead_edge.drain import Undelivered
from fairlead_edge.errors import StoreUnusable
from fairlead_edge.io import data_dir
from fairlead_edge.io.identity import device
from fairlead_edge.io.identity import join as joins
from fairlead_edge.io.identity.device import DeviceSettings
from fairlead_edge.io.identity.identity_files import IdentityFiles, Pair
from fairlead_edge.io.moving import switch
from fairlead_edge.io.moving.files import OUT_OF_SERVICE, MoveFiles, MovePlan, MoveProgress
from fairlead_wire.errors import FairleadError
from fairlead_wire.identity.join_token import JoinToken

POLL_SECONDS: Final = 0.2
DEADLINE_SECONDS: Final = 600.0
GRACE_SECONDS: Final = 60.0
"""For an agent that is started now, and for the switch itself."""

Say = Callable[[str, str], None]


class CannotMove(FairleadError):
    """One sentence with its remedy; the node is at the old hub, unless the text says otherwise."""


class MoveOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the command line."""

    url: str
    token: JoinToken
    config: Path
    deadline_seconds: float = DEADLINE_SECONDS
    undelivered: Undelivered = "stay"


class MoveDone(msgspec.Struct, frozen=True, kw_only=True):
    """``since``: the hub it came from; the same as ``until``: it was there already, and nothing was done."""

    node: str
    since: str
    until: str


async def move(wanted: MoveOptions, environ: Mapping[str, str], say: Say) -> MoveDone:
    """Raises a ``FairleadError``.  ``say(what, text)`` reports each step."""
    settings, files = load_device(wanted.config, environ)
    with exclusive(files):
        since = _since(files, settings)
        if (completed := files.switched() or files.moved()) is not None and completed.until == wanted.url:
            say("switch", "is done already: the settings file is completed")
            return _finish(wanted, settings, files, completed.since, say)
        plan = files.plan()
        if since == wanted.url and plan is None:
            return MoveDone(node=settings.node, since=since, until=since)
        settings.write(_keys(settings, files, wanted.url), owner=None, dry=True)
        if plan is not None and plan.until != wanted.url:
            raise CannotMove(under_way(plan))
        if plan is None:
            await _stage(wanted, settings, files, say)
            plan = MovePlan(
                node=settings.node,
                since=settings.text("hub_url"),
                until=wanted.url,
                deadline_seconds=wanted.deadline_seconds,
                undelivered=wanted.undelivered,
            )
            files.ask(plan)
        elif (plan.deadline_seconds, plan.undelivered) != (wanted.deadline_seconds, wanted.undelivered):
            asked = f"--deadline {plan.deadline_seconds:g}s --undelivered {plan.undelivered}"
            say("under way", f"as it was asked for, with {asked}; --cancel it first to change that")
        if not is_running(settings.data_dir):
            say("agent", "does not run: start it (systemctl start fairlead-edge); it moves then")
        await follow(plan, files, say)
        say("switched", f"to {plan.until}")
        return _finish(wanted, settings, files, since, say)


def cancel(config: Path, environ: Mapping[str, str]) -> str:
    """Cancel the move; returns the hub where the node stays.  Raises ``CannotMove``."""
    settings, files = load_device(config, environ)
    with exclusive(files):
        if files.switched() is not None or files.moved() is not None:
            raise CannotMove("the node has switched already; to go back, move it to the old hub with a token of that")
        if files.left() is not None:
            raise CannotMove("the node is out of service already; to go back, join the hub again: fairlead edge join")
        if files.plan() is None and not files.folder.exists():
            raise CannotMove("no move is under way; nothing was done")
        files.cancel()
        return settings.text("hub_url")


def load_device(config: Path, environ: Mapping[str, str]) -> tuple[DeviceSettings, MoveFiles]:
    """Settings and files of a device that belongs to a hub.  Raises ``CannotMove``."""
    settings = DeviceSettings(config, environ)
    if not settings.exists:
        raise CannotMove(
            f"{config} does not exist: name the agent's settings with --config; a device that belongs to no hub yet"
            " gets them by fairlead edge join"
        )
    if not settings.node or not settings.text("hub_url"):
        raise CannotMove(f"{config} names no node and hub: this device belongs to none yet; use fairlead edge join")
    owner = device.owner_of(settings.data_dir, "")
    return settings, MoveFiles(settings.data_dir, owner=owner)


def _since(files: MoveFiles, settings: DeviceSettings) -> str:
    moved = files.moved()
    url = settings.text("hub_url")
    return moved.until if moved is not None and moved.since == url else url


def _keys(settings: DeviceSettings, files: MoveFiles, url: str) -> dict[str, str]:
    moved = switch.moved_of(files, "", url)
    return {
        "node": settings.node,
        "hub_url": url,
        "tls_ca": moved.tls_ca,
        "tls_cert": moved.tls_pair,
        "tls_key": moved.tls_pair,
    }


async def _stage(wanted: MoveOptions, settings: DeviceSettings, files: MoveFiles, say: Say) -> None:
    """The new identity, beside the one in use."""
    files.make_folder()
    if files.staged_for() == wanted.url and _is_good(files.staged.current()):
        say("certificate", "the one that was issued for this move before")
        return
    join = joins.JoinOptions(url=wanted.url, token=wanted.token, config=wanted.config, node=settings.node, force=True)
    pair = await joins.stage(join, settings, files.staged, say)
    files.staged.use(pair)
    files.staged.drop_pending()
    files.note_staged(wanted.url)


def _is_good(pair: Pair | None) -> bool:
    return pair is not None and pair.certificate.not_after > datetime.datetime.now(datetime.UTC)


def under_way(plan: MovePlan) -> str:
    """The refusal when another plan is in progress."""
    what = f"a move to {plan.until}" if plan.until != OUT_OF_SERVICE else "leaving the hub"
    return f"{what} is under way: wait for it, or give it up with --cancel"


async def follow(plan: MovePlan, files: MoveFiles, say: Say) -> None:
    """Wait until the agent has switched.  Raises ``CannotMove``."""
    until = time.monotonic() + plan.deadline_seconds + GRACE_SECONDS
    shown: MoveProgress | None = None
    while True:
        progress = files.progress()
        if progress is not None and progress != shown:
            say("waiting", _sentence(progress, "the hub" if plan.until == OUT_OF_SERVICE else "the old hub"))
            shown = progress
        if _has_switched(plan, files):
            return
        if progress is not None and progress.step == "gave up":
            why, when = (f": {progress.held}", "they may leave again") if progress.held else ("", "that hub is there")
            raise CannotMove(
                f"{progress.waiting:,} messages were not delivered to {plan.since} in time{why}; the node stays there"
                f" and accepts messages. Run it again with a longer --deadline when {when}; or with"
                f" {_ANYWAY[plan.until == OUT_OF_SERVICE]}"
            )
        if time.monotonic() > until:
            raise CannotMove(
                "the agent did not move in time: start it, or look at its log. The move goes on; the same command shows"
                " it, --cancel ends it"
            )
        await asyncio.sleep(POLL_SECONDS)


_ANYWAY: Final = {
    False: "--undelivered take-along: then they go to the new hub, and those whose answer was lost may be at both",
    True: "--undelivered leave: then it leaves all the same, and they stay on this disk",
}


def _has_switched(plan: MovePlan, files: MoveFiles) -> bool:
    if plan.until == OUT_OF_SERVICE:
        return files.left() is not None
    moved = files.moved()
    return moved is not None and moved.until == plan.until


def _sentence(progress: MoveProgress, hub: str) -> str:
    link = f"; they may not leave now: {progress.held}" if progress.held else ""
    link = link if progress.connected else f", {hub} is away"
    door = "; no new ones are accepted for this moment" if progress.step == "close" else ""
    return f"{progress.waiting:,} messages for {hub}{link}{door}"


def _finish(wanted: MoveOptions, settings: DeviceSettings, files: MoveFiles, since: str, say: Say) -> MoveDone:
    settings.write(_keys(settings, files, wanted.url), owner=None)
    if ca_file := settings.publish_issuers(IdentityFiles.of(settings.data_dir)):
        say("CA file", ca_file)
    # The file names the new hub from now on: writing the old one into it again is a deliberate choice.
    files.forget_moved()
    say("settings", str(settings.path))
    return MoveDone(node=settings.node, since=since, until=wanted.url)


def is_running(folder: Path) -> bool:
    """True while an agent holds the folder."""
    try:
        os.close(data_dir.lock(folder))
    except StoreUnusable:
        return True
    return False


@contextlib.contextmanager
def exclusive(files: MoveFiles) -> Iterator[None]:
    """Only one such command at a time.  Raises ``CannotMove``."""
    try:
        opened = os.open(files.data_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise CannotMove(
            f"data_dir {files.data_dir}: {error.strerror}; run it as root or as the agent's user, on the device itself"
        ) from None
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise CannotMove("another fairlead edge move or leave runs for this node: wait for it") from None
    finally:
        os.close(opened)
