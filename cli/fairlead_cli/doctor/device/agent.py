"""The agent: its version, the permissions of its files, its lock, and what a running one reports about itself."""

from __future__ import annotations

import errno
import os
import pwd
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import apsw
import msgspec

from fairlead_cli.doctor.device import disk, store
from fairlead_cli.doctor.examination import Finding, ok, problem, warning
from fairlead_cli.text import quantities
from fairlead_edge.io.client import EdgeClient
from fairlead_edge.io.identity import last_session
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.outbox.queues import is_held_for_routes
from fairlead_wire import durations, message
from fairlead_wire.errors import FairleadError
from fairlead_wire.io import users
from fairlead_wire.objects import digest

SQLITE_MIN = (3, 35, 0)


class Programs(msgspec.Struct, frozen=True, kw_only=True):
    """Versions of the interpreter and libraries that run the agent."""

    fairlead: str
    python: str
    sqlite: str
    unknown_variables: tuple[str, ...] = ()


def judge_programs(programs: Programs) -> Iterator[Finding]:
    """Versions, and environment variables with our prefix that are unknown."""
    text = f"fairlead {programs.fairlead}, Python {programs.python}, SQLite {programs.sqlite}"
    if tuple(int(part) for part in programs.sqlite.split(".")[:3]) < SQLITE_MIN:
        needed = ".".join(map(str, SQLITE_MIN))
        yield problem("versions", f"{text}: SQLite is too old", f"pip install -U apsw; at least {needed} is needed")
    else:
        yield ok("versions", text)
    for name in programs.unknown_variables:
        yield warning("settings", f"environment variable {name} is not a Fairlead setting", "correct or remove it")


def judge_left(node: str, at: str) -> Iterator[Finding]:
    """The agent cannot start on this device, so no other check makes sense."""
    text = f"{node} was taken out of service at {at}, so no agent starts on this device"
    yield problem("service", text, "to join a hub again: fairlead edge join")


def judge_running(in_use: bool, status: Mapping[str, Any] | None, error: str, here: str) -> Iterator[Finding]:
    """``status`` is the agent's own status; None if it could not be read, because of ``error`` ("": not asked)."""
    if not in_use and status is None:
        yield ok("agent", "no agent is running on this data_dir")
        return
    if status is None and not error:
        yield ok("agent", "an agent is running; it responds only over TLS, so its status was not requested")
        return
    if status is None:
        text = f"an agent is using data_dir, but its status cannot be read: {error}"
        yield problem(
            "agent", text, "read its log (journalctl -u fairlead-edge), and check http_listen in the settings"
        )
        return
    agent, link = str(status.get("agent", "?")), status.get("link") or {}
    if agent != here:
        text = f"agent {agent} is running, but {here} is installed"
        yield warning("agent.version", text, "restart the agent to run the installed version")
    if link.get("state") == "connected":
        yield ok("agent", f"agent {agent} is running and connected to hub {link.get('hub') or '?'}")
    elif (seconds := link.get("followsInSeconds")) is not None:
        text = f"agent {agent} is running and refuses the hub because of its lower fencing number: {link.get('reason')}"
        command = f"fairlead node approve {status.get('node')}"
        remedy = (
            f"it accepts that hub in {seconds:.0f} s; to accept it now, run"
            f" where the cluster is administered: {command}"
        )
        yield problem("agent.stale_hub", text, remedy)
    else:
        why = link.get("reason") or "no reason given"
        text = f"agent {agent} is running without a session with the hub: {link.get('state', '?')}: {why}"
        yield problem("agent", text, "see the findings about the link")
    yield from _judge_routes(status)
    yield from _judge_budget(link.get("plan") or {})
    if (status.get("store") or {}).get("diskFull"):
        text = "the agent's disk is full: it refuses published messages (507) and objects from the hub"
        yield problem("agent.disk_full", text, "free up space; messages that are sent free their own")
    dead = status.get("deadLetters") or 0
    if dead:
        text = f"this device has {quantities.of(dead, 'dead letter')}"
        remedy = "fairlead edge deadletters list shows why; replay sends them again, discard deletes them"
        yield warning("agent.dead_letters", text, remedy)


def _judge_routes(status: Mapping[str, Any]) -> Iterator[Finding]:
    """No routes, refused routes, and messages that wait for them."""
    routes: Mapping[str, Any] = status.get("routes") or {}
    if "routes" in status and not routes:
        text = "the agent has no routes: published messages go nowhere, or are refused with not_now"
        node = status.get("node", "NODE")
        remedy = f"make the nodeSelector of an EdgeRoutes object match {node}: kubectl get edgeroutes, kubectl get node"
        yield warning("agent.routes", text, f"{remedy} {node} --show-labels")
    for name, each in sorted(routes.items()):
        if errors := each.get("errors"):
            first = errors[0]
            of_route = f"route {first['route']}: " if first.get("route") else ""
            text = f"EdgeRoutes {name}: {len(errors)} refused, for example {of_route}{first.get('message')}"
            yield problem("agent.routes", text, "correct the EdgeRoutes object; fairlead routes check FILE shows where")
    held = sum(each["length"] for each in status.get("queues") or () if is_held_for_routes(each.get("endpoint", "")))
    if held:
        text = f"the agent holds {quantities.of(held, 'message')} until a refused route is corrected"
        yield warning("agent.held", text, "correct the route before they expire; the agent then routes them")


def _judge_budget(plan: Mapping[str, Any]) -> Iterator[Finding]:
    if plan.get("usedUp"):
        text = (
            f"today's data budget is used up ({plan.get('bytesToday')} of {plan.get('bytesPerDay')} bytes): messages"
            f" wait and are sent again in {durations.span(plan.get('nextDaySeconds') or 0)}"
        )
        yield warning("agent.bytes_per_day", text, "wait for the next day, or raise [link] bytes_per_day")


OTHERS_READ: Final = 0o004
OTHERS_WRITE: Final = 0o022
GROUP: Final = 0o070
LOCKS = Path("/proc/locks")
READ, EXECUTE = 4, 1


# ── permissions of files ──────────────────────────────────────────────────────────────────────────────────────────────


class File(msgspec.Struct, frozen=True, kw_only=True):
    """``what`` it is to the agent: ``tls_key``, ``token`` …; ``owner`` is a user's number."""

    what: str
    path: str
    mode: int
    owner: int


def judge_secret(file: File) -> Finding:
    """A key or a token: only its owner may read it."""
    mode = stat.S_IMODE(file.mode)
    check, shown = f"permissions.{file.what}", f"{file.what} {file.path} has mode {mode:04o}"
    if mode & OTHERS_READ or mode & OTHERS_WRITE:
        return problem(
            check, f"{shown}: other users of this machine can use it", f"chmod 600 {file.path}, then renew it"
        )
    if mode & GROUP:
        return warning(
            check, f"{shown}: its group can read it", f"chmod 600 {file.path}, unless the group is meant to read it"
        )
    return ok(check, f"{shown}: only its owner can read it")


def judge_readable(named: Mapping[str, str], unreadable: Mapping[str, str], user: int) -> Iterator[Finding]:
    """``named``: setting → the file it names; ``unreadable``: file → why the agent's ``user`` cannot read it."""
    who = users.name(user)
    wrong = {setting: path for setting, path in named.items() if path in unreadable}
    for setting, path in sorted(wrong.items()):
        text = f"{setting} {path} cannot be read by user {who}, who owns data_dir: {unreadable[path]}"
        remedy = f"chown {who} {path}"
        if unreadable[path] == os.strerror(errno.ENOENT):
            is_tokens = setting.endswith("tokens_file")
            remedy = f"fairlead edge module-token MODULE --tokens-file {path}" if is_tokens else f"create {path}"
        yield problem(
            "permissions.readable", text, f"{remedy}, or correct {setting}; the agent does not start without this file"
        )
    if named and not wrong:
        yield ok("permissions.readable", f"user {who} can read all files that the settings name")


def judge_folder(folder: File, inside: Iterable[File]) -> Iterator[Finding]:
    """The agent's folder and the files in it."""
    if stat.S_IMODE(folder.mode) & OTHERS_WRITE:
        text = f"{folder.path} has mode {stat.S_IMODE(folder.mode):04o}: other users can replace the token"
        yield warning("permissions.data_dir", text, f"chmod 700 {folder.path}")
    strange = [file for file in inside if file.owner != folder.owner]
    if strange:
        first, owner = strange[0], users.name(folder.owner)
        text = (
            f"owner {owner} of {folder.path} does not own {quantities.of(len(strange), 'file')} in it, for example "
            f"{first.path} (user {users.name(first.owner)}): was the agent once run as another user?"
        )
        yield problem("permissions.owner", text, f"chown -R {owner} {folder.path} while the agent is stopped")
    else:
        yield ok("permissions.owner", f"all files in {folder.path} belong to user {users.name(folder.owner)}")


# ── the agent's folder and the agent that may be running on it ────────────────────────────────────────────────────────


def in_use(data_dir: Path, locks: Path = LOCKS) -> bool:
    """Is the folder's lock held?  Read from the kernel's list: taking the lock could stop a starting agent."""
    try:
        wanted = os.stat(data_dir / "lock").st_ino
        held = locks.read_text()
    except OSError:
        return False
    for line in held.splitlines():
        words = line.split()
        if "FLOCK" in words and any(word.count(":") == 2 and word.endswith(f":{wanted}") for word in words):
            return True
    return False


def file(what: str, path: Path) -> File | None:
    """None if it cannot be read."""
    try:
        found = path.stat()
    except OSError:
        return None
    return File(what=what, path=str(path), mode=found.st_mode, owner=found.st_uid)


def files(data_dir: Path) -> Sequence[File]:
    """The entries of the folder itself, without the file with which the disk check is measuring."""
    try:
        paths = sorted(path for path in data_dir.iterdir() if not path.name.startswith(disk.PREFIX))
        return [found for path in paths if (found := file(path.name, path)) is not None]
    except OSError:
        return []


def unreadable(paths: Sequence[Path], owner: int) -> dict[str, str]:
    """The files that this user cannot read, with the reason, judged by modes and owners (not by ACLs)."""
    if owner == 0:
        return {str(path): os.strerror(errno.ENOENT) for path in paths if not path.exists()}
    group, groups = _groups(owner)
    return {str(path): why for path in paths if (why := _why_not(path, owner, {group, *groups}))}


def _why_not(path: Path, owner: int, groups: set[int]) -> str:
    """Empty if it can be read."""
    try:
        whole = path.resolve(strict=True)
        for folder in whole.parents:
            if not _may(folder.stat(), owner, groups, EXECUTE):
                return f"{os.strerror(errno.EACCES)} (folder {folder})"
        return "" if _may(whole.stat(), owner, groups, READ) else os.strerror(errno.EACCES)
    except OSError as error:
        return error.strerror or str(error)


def _may(found: os.stat_result, owner: int, groups: set[int], bit: int) -> bool:
    shift = 6 if found.st_uid == owner else 3 if found.st_gid in groups else 0
    return bool(found.st_mode >> shift & bit)


def _groups(owner: int) -> tuple[int, Sequence[int]]:
    try:
        user = pwd.getpwuid(owner)
    except KeyError:
        return owner, ()
    return user.pw_gid, os.getgrouplist(user.pw_name, user.pw_gid)


def status(url: str, data_dir: Path) -> tuple[dict[str, Any] | None, str]:
    """The agent's status, or why it cannot be read."""
    try:
        token = (data_dir / "token").read_text()
    except OSError:
        token = None
    try:
        return EdgeClient(url, token=token, patience_seconds=0).status(), ""
    except (FairleadError, ValueError) as error:
        return None, str(error)


def hello(data_dir: Path, node: str, agent: str) -> message.Hello:
    """The hello that this store's agent would send; if the store cannot be read, that of an empty one.

    It names the store as the agent's last session did: the hub remembers that, and renews a certificate that expired
    while the node was away only if both agree.
    """
    last = last_session.read(data_dir)
    fence, entries = _held(data_dir / "objects.db")
    buckets = digest.Buckets.of(entries, digest.bits_for(len(entries)))
    return message.Hello(
        node=node,
        agent=agent,
        store_epoch=last.store_epoch if last is not None and last.store_epoch else 1,
        fence=fence,
        bits=buckets.bits,
        held=len(entries),
        root=buckets.root,
    )


def _held(path: Path) -> tuple[int, list[tuple[str, str]]]:
    if not path.exists():
        return 0, []
    try:
        connection = store.opened(path, in_use=False)
        try:
            fence = rows(connection, "SELECT value FROM facts WHERE name = 'fence'")
            entries = rows(connection, "SELECT uid, digest FROM objects")
        finally:
            connection.close()
    except (apsw.Error, UnicodeDecodeError):
        return 0, []
    found = fence[0][0] if fence else 0
    return int(found or 0), [(str(uid), str(content)) for uid, content in entries]
