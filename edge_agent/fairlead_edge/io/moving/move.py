"""``fairlead edge move``: moves a node to another hub, after its accepted messages were delivered to the old one.

    join the new hub, in a separate folder ▸ ask the agent ▸ it delivers, refuses producers, switches ▸ settings file

The agent keeps running, and makes the switch itself.  Running the same command again resumes it.
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
from fairlead_edge.errors import NotPermitted, StoreUnusable
from fairlead_edge.io import data_dir, ownership
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
"""Additional time for starting the agent and for the switch."""

_AS_OWNER: Final = "run it with sudo, or as the agent's user"

Say = Callable[[str, str], None]


class CannotMove(FairleadError):
    """Moving failed; the text names the remedy.  Unless it says otherwise, the node is still at the old hub."""


class MoveOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the command line."""

    url: str
    token: JoinToken
    config: Path
    deadline_seconds: float = DEADLINE_SECONDS
    undelivered: Undelivered = "stay"


class MoveDone(msgspec.Struct, frozen=True, kw_only=True):
    """The result.  ``since``: the old hub; equal to ``until`` if the node was there already and nothing was done."""

    node: str
    since: str
    until: str


async def move(wanted: MoveOptions, environ: Mapping[str, str], say: Say) -> MoveDone:
    """Move the node.  ``say(what, text)`` reports each step.  Raises a ``FairleadError``."""
    settings, files = load_device(wanted.config, environ)
    with exclusive(files):
        since = _since(files, settings)
        if (completed := files.switched() or files.moved()) is not None and completed.until == wanted.url:
            say("switch", "was already done; completing the settings file")
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
            say("under way", f"already, with {asked}; to change this, --cancel it first")
        if not is_running(settings.data_dir):
            say("agent", "is not running: start it (systemctl start fairlead-edge), and it will move")
        await follow(plan, files, say)
        say("switched", f"to {plan.until}")
        return _finish(wanted, settings, files, since, say)


def cancel(config: Path, environ: Mapping[str, str], *, nothing: str = "no move is under way") -> str:
    """Cancel the move or leaving; returns the hub where the node stays.  Raises ``CannotMove``.

    ``nothing``: the error if there is nothing to cancel.
    """
    settings, files = load_device(config, environ)
    with exclusive(files):
        if files.switched() is not None or files.moved() is not None:
            raise CannotMove("the node has already switched; to go back, move it to the old hub with a new token")
        if files.left() is not None:
            raise CannotMove("the node is already out of service; to go back, join the hub again: fairlead edge join")
        if files.plan() is None and not files.folder.exists():
            raise CannotMove(f"{nothing}; nothing was changed")
        files.cancel()
        return settings.text("hub_url")


def load_device(config: Path, environ: Mapping[str, str]) -> tuple[DeviceSettings, MoveFiles]:
    """Settings and files of a device that belongs to a hub.  Raises ``CannotMove``."""
    settings = DeviceSettings(config, environ)
    if not settings.exists:
        raise CannotMove(
            f"{config} does not exist: name the agent's settings with --config; a device that has not joined a hub yet"
            " gets them from fairlead edge join"
        )
    if not settings.node or not settings.text("hub_url"):
        raise CannotMove(f"{config} names no node and hub: this device has not joined one; use fairlead edge join")
    try:
        ownership.refuse_foreign(settings.data_dir, switch.WRITTEN)
    except NotPermitted as error:
        place, user = ownership.place_and_owner(Path(error.path))
        raise CannotMove(f"{place}: Permission denied: it belongs to user {user}; {_AS_OWNER}") from None
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
    """Obtain the new identity, beside the one in use."""
    files.make_folder()
    if files.staged_for() == wanted.url and _is_good(files.staged.current()):
        say("certificate", "reusing the one already issued for this move")
        return
    join = joins.JoinOptions(url=wanted.url, token=wanted.token, config=wanted.config, node=settings.node, force=True)
    pair = await joins.stage(join, settings, files.staged, say)
    files.staged.use(pair)
    files.staged.drop_pending()
    files.note_staged(wanted.url)


def _is_good(pair: Pair | None) -> bool:
    return pair is not None and pair.certificate.not_after > datetime.datetime.now(datetime.UTC)


def under_way(plan: MovePlan) -> str:
    """The error text if another plan is in progress."""
    is_leaving = plan.until == OUT_OF_SERVICE
    what, command = ("leaving the hub", "leave") if is_leaving else (f"a move to {plan.until}", "move")
    return f"{what} is under way: wait for it, or cancel it with fairlead edge {command} --cancel"


async def follow(plan: MovePlan, files: MoveFiles, say: Say) -> None:
    """Wait until the agent has switched.  Raises ``CannotMove``."""
    until = time.monotonic() + plan.deadline_seconds + GRACE_SECONDS
    shown: MoveProgress | None = None
    while True:
        progress = files.progress()
        if progress is not None and progress != shown:
            say("waiting", _describe(progress, "the hub" if plan.until == OUT_OF_SERVICE else "the old hub"))
            shown = progress
        if _has_switched(plan, files):
            return
        if progress is not None and progress.step == "gave up":
            why, when = f": {progress.held}", "they may leave again"
            if not progress.held:
                why, when = "", "that hub is reachable"
            raise CannotMove(
                f"{progress.waiting:,} messages were not delivered to {plan.since} in time{why}; the node stays there"
                f" and accepts messages. Run the command again with a longer --deadline when {when}; or with"
                f" {_ANYWAY[plan.until == OUT_OF_SERVICE]}"
            )
        if time.monotonic() > until:
            what, rest = ("leave", "Leaving") if plan.until == OUT_OF_SERVICE else ("move", "The move")
            raise CannotMove(
                f"the agent did not {what} in time: start it, or check its log. {rest} continues when it runs; the same"
                f" command shows its progress, fairlead edge {what} --cancel ends it"
            )
        await asyncio.sleep(POLL_SECONDS)


_ANYWAY: Final = {
    False: "--undelivered take-along: then they go to the new hub, and those whose answer was lost may be at both",
    True: "--undelivered leave: then the node leaves anyway, and they stay on this disk",
}


def _has_switched(plan: MovePlan, files: MoveFiles) -> bool:
    if plan.until == OUT_OF_SERVICE:
        return files.left() is not None
    moved = files.moved()
    return moved is not None and moved.until == plan.until


def _describe(progress: MoveProgress, hub: str) -> str:
    link = f"; they may not leave now: {progress.held}" if progress.held else ""
    link = link if progress.connected else f", {hub} is not connected"
    refusing = "; new ones are refused for a moment" if progress.step == "close" else ""
    return f"{progress.waiting:,} messages for {hub}{link}{refusing}"


def _finish(wanted: MoveOptions, settings: DeviceSettings, files: MoveFiles, since: str, say: Say) -> MoveDone:
    settings.write(_keys(settings, files, wanted.url), owner=None)
    if ca_file := settings.publish_issuers(IdentityFiles.of(settings.data_dir)):
        say("CA file", ca_file)
    # The file names the new hub now, so if a person writes the old one into it again, that is a deliberate choice.
    files.forget_moved()
    say("settings", str(settings.path))
    return MoveDone(node=settings.node, since=since, until=wanted.url)


def is_running(folder: Path) -> bool:
    """Whether an agent holds the folder's lock."""
    try:
        os.close(data_dir.lock(folder))
    except StoreUnusable:
        return True
    return False


@contextlib.contextmanager
def exclusive(files: MoveFiles) -> Iterator[None]:
    """Allow only one move or leave command at a time.  Raises ``CannotMove``."""
    try:
        opened = os.open(files.data_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise CannotMove(f"data_dir {files.data_dir}: {error.strerror}; {_AS_OWNER}, on the device itself") from None
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise CannotMove("another fairlead edge move or leave is running for this node: wait for it") from None
    finally:
        os.close(opened)
