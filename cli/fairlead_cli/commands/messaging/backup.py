"""`fairlead messaging backup` and `restore`: write everything a service stores to one file, and restore it."""

from __future__ import annotations

import contextlib
import datetime
import errno
import fcntl
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NoReturn

import click

from fairlead_cli.clients import messaging_client
from fairlead_cli.output import topic_lines
from fairlead_cli.output.progress import ProgressBar
from fairlead_cli.text import printable, quantities
from fairlead_wire import distribution

if TYPE_CHECKING:
    from fairlead_messaging.server.backup import Decoder, Source

OWNER_ONLY = 0o600
NO_GROUP_NO_OTHERS = 0o077
PARTIAL = ".part"
NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS)
"""Errors of file systems without hard links, such as those of memory sticks."""


def register(root: click.Group) -> None:
    """Add `backup` and `restore` to `messaging`."""
    messaging = root.commands["messaging"]
    assert isinstance(messaging, click.Group)
    messaging.add_command(backup)
    messaging.add_command(restore)


@click.command(short_help="Back up everything a service stores to one file.")
@messaging_client.options
@click.option(
    "--data-dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The store of a stopped service, or a snapshot of its volume, instead of --url.",
)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), required=True, help="The file to write.")
@messaging_client.output
@click.pass_context
def backup(context: click.Context, data_dir: Path | None, out: Path, output: str) -> None:
    """Back up a consistent state of everything a messaging service stores: topics, messages, transactions, producers,
    readers, subscriptions. The service keeps running. The file is created only once it is complete and checked.

    \b
    From a running service:   fairlead messaging backup --url https://messaging:11015 --out monday.backup
    From a stopped one:       fairlead messaging backup --data-dir /var/lib/fairlead/messaging --out monday.backup
    Restore it:               fairlead messaging restore monday.backup --data-dir /var/lib/fairlead/messaging

    The file contains every message: protect it like the store. With an access table, `administer` and `consume` on
    every topic are required.
    """
    from fairlead_messaging.server.backup import BadBackup, TeeSource

    if os.path.lexists(out):
        raise click.UsageError(f"{out} already exists: name another file")
    partial = out.with_name(out.name + PARTIAL)
    try:
        with _source(context, data_dir) as source, _created(partial) as file:
            read = _checked(TeeSource(source, file), "backing up, rows")
            file.flush()
            os.fsync(file.fileno())
            _name(partial, out)
        _flush(out.parent)
        size = out.stat().st_size
    except FileExistsError:
        raise click.UsageError(f"{out} already exists: name another file") from None
    except BadBackup as error:
        _fail("backup", f"the backup is incomplete: {error}")
    except OSError as error:
        _fail("backup", f"{error.filename or out}: {error.strerror or error}")
    if output == "json":
        topic_lines.print_json(
            {"file": str(out), "rows": read.rows, "bytes": size, "service": read.header.service, "taken": _taken(read)}
        )
    else:
        click.echo(f"{out}: {quantities.of(read.rows, 'row')}, {size} bytes, as of {_taken(read)}")


@click.command(short_help="Create a store from a backup.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where to create the store; a directory without one.",
)
@click.option("--store", type=click.Choice(["rocksdb", "sqlite"]), default="rocksdb", show_default=True)
@click.option(
    "--as-copy",
    is_flag=True,
    help="The new service runs beside the first one and refuses readers of the first one.",
)
@click.option("--check", is_flag=True, help="Only read FILE and report whether it is complete.")
@messaging_client.output
def restore(file: Path, data_dir: Path | None, store: str, as_copy: bool, check: bool, output: str) -> None:
    """Create the store of a messaging service from a backup of either kind of store. Then start the service on it.

    \b
    Check a backup:   fairlead messaging restore monday.backup --check
    Restore it:       fairlead messaging restore monday.backup --data-dir /var/lib/fairlead/messaging
    Change the store: fairlead messaging backup --data-dir OLD --out all.backup
                      fairlead messaging restore all.backup --data-dir NEW --store sqlite

    Messages published after the backup are not in it. Clients continue: positions are times, so positions after the
    backup continue with new messages, and edge nodes send unacknowledged messages again. The clock must not be behind
    that of the old service. An existing store is never changed.
    """
    from fairlead_messaging.api.errors import StorageError
    from fairlead_messaging.server.backup import BadBackup, Decoder
    from fairlead_messaging.server.io.stores import offline_store

    if (data_dir is None) == (not check):
        raise click.UsageError("give --data-dir, or --check to only read the backup")
    os.umask(NO_GROUP_NO_OTHERS)
    try:
        with file.open("rb") as source:
            if data_dir is None:
                read = _checked(source, "checking, rows")
            else:
                read = Decoder(source)
                now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
                with ProgressBar("restoring, rows", passing=True) as progress:
                    offline_store.restore(
                        read,
                        data_dir,
                        "sqlite" if store == "sqlite" else "rocksdb",
                        now,
                        new_id=as_copy,
                        wrote=progress.add,
                    )
    except BadBackup as error:
        _fail("restore", f"{file} cannot be used: {error}")
    except (StorageError, OSError) as error:
        _fail("restore", str(error))
    if output == "json":
        found = {"rows": read.rows, "service": read.header.service, "taken": _taken(read)}
        topic_lines.print_json(found if data_dir is None else {**found, "data_dir": str(data_dir), "store": store})
    else:
        where = "is complete" if data_dir is None else f"restored to {data_dir} ({store})"
        click.echo(f"{file} {where}: {quantities.of(read.rows, 'row')}, as of {_taken(read)}")


@contextlib.contextmanager
def _source(context: click.Context, data_dir: Path | None) -> Iterator[Source]:
    """The source of the backup; its errors end the command."""
    if data_dir is None:
        with messaging_client.service(context) as client, client.backup() as answer:
            yield answer
        return
    from fairlead_messaging.api.errors import StorageError
    from fairlead_messaging.server.backup import ChunkReader, encode
    from fairlead_messaging.server.io.stores import offline_store
    from fairlead_messaging.server.log import keys

    try:
        with offline_store.opened(data_dir) as rows:
            key = keys.service("id")
            service = next((value.decode() for _, value in rows.scan(key, key + b"\x00")), "")
            with contextlib.closing(
                encode(
                    rows.scan(*keys.EVERYTHING),
                    program=distribution.version(),
                    service=service,
                    taken_ms=int(time.time() * 1000),
                )
            ) as made:
                yield ChunkReader(data for data, _ in made)
    except offline_store.NoStore as error:
        raise click.UsageError(str(error)) from None
    except offline_store.InUse as error:
        _fail("backup", f"to back up a running service use --url instead of --data-dir: {error}")
    except StorageError as error:
        _fail("backup", str(error))


@contextlib.contextmanager
def _created(path: Path) -> Iterator[BinaryIO]:
    """A temporary file that only its owner may read, removed at the end.  Raises ``BlockingIOError``, ``OSError``.

    An old file of this name is removed, unless a running backup has locked it.
    """
    with contextlib.suppress(FileNotFoundError):
        there = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            _lock(there, path)
            path.unlink()
        finally:
            os.close(there)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, OWNER_ONLY), "wb") as file:
        _lock(file.fileno(), path)
        if not os.path.samestat(os.fstat(file.fileno()), path.lstat()):
            raise _busy(path)
        try:
            yield file
        finally:
            path.unlink(missing_ok=True)


def _lock(file: int, path: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise _busy(path) from None
    except OSError:
        return  # a file system without locks


def _busy(path: Path) -> BlockingIOError:
    return BlockingIOError(errno.EWOULDBLOCK, "another backup is writing it; wait for that, or name another file", path)


def _name(partial: Path, out: Path) -> None:
    """Rename the complete file, never replacing another.  Raises ``FileExistsError``, ``OSError``."""
    try:
        os.link(partial, out)
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        if os.path.lexists(out):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), out) from None
        os.rename(partial, out)


def _checked(source: Source, label: str) -> Decoder:
    """Read all of it to check that it is complete.  Raises ``BadBackup``."""
    from fairlead_messaging.server.backup import Decoder

    read = Decoder(source)
    with ProgressBar(label, passing=True) as progress:
        while (rows := read.next_block()) is not None:
            progress.add(len(rows))
    return read


def _taken(read: Decoder) -> str:
    moment = datetime.datetime.fromtimestamp(read.header.taken_ms / 1000, datetime.UTC)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def _flush(folder: Path) -> None:
    """Flush the directory, so that the new name is on disk."""
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _fail(command: str, reason: str) -> NoReturn:
    click.echo(printable.lines(f"fairlead messaging {command}: {reason}"), err=True)
    sys.exit(1)
