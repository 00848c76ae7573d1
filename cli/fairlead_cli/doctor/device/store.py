"""Are the stores on disk sound, and of a version that this program reads?"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from fairlead_cli.doctor.finding import Finding, ok, problem, warning

MIB = 1024 * 1024


class StoreFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file.  ``integrity`` is what SQLite found ("ok"), or "" when time was over before it had read everything."""

    what: str
    path: str
    size_bytes: int
    limit_bytes: int
    version: int | None = None
    known_version: int = 0
    integrity: str = ""
    error: str = ""
    unfinished: bool = False
    """A salvage began and did not come to its end: the next start goes on with it."""
    encrypted: bool = False
    """Then only its agent can look through it, and does at each start."""
    damaged_copy: str = ""
    """Where an earlier damaged file was put aside."""


def judge(store: StoreFile | None, what: str) -> Iterator[Finding]:
    """None: there is no such file yet."""
    check = f"store.{what}"
    if store is None:
        yield ok(check, f"there is no {what}.db yet; the agent makes it when it starts for the first time")
        return
    if store.error or store.integrity not in ("", "ok"):
        text = f"{store.path} cannot be used as it is: {store.error or store.integrity}"
        yield problem(check, text, "start the agent again: it salvages what can be read; and look at the disk")
    elif store.version is not None and store.version > store.known_version:
        text = f"{store.path} has version {store.version}, and this program knows {store.known_version}"
        yield problem(check, text, "install the newer agent again: an older one must not write to this file")
    else:
        looked = "sound" if store.integrity == "ok" else "sound as far as was looked in the time there was"
        looked = "encrypted (the agent looks through it when it starts)" if store.encrypted else looked
        size = f"{store.size_bytes // MIB:,} of {store.limit_bytes // MIB:,} MiB"
        yield ok(check, f"{store.path} is {looked}, version {store.version}, {size}")
    if store.unfinished:
        text = f"{store.path} is being salvaged, and that did not come to its end"
        yield warning(check, text, "start the agent: it goes on with it; make sure that the disk has room")
    if store.damaged_copy:
        text = f"{store.damaged_copy} was put aside because the disk had damaged it"
        yield warning(check, text, "look at the disk's health; the copy may be removed")
    if store.limit_bytes and store.size_bytes > store.limit_bytes * 0.9:
        text = f"{store.path} takes {store.size_bytes // MIB:,} of {store.limit_bytes // MIB:,} MiB"
        remedy = "restore the link so that messages leave, or raise [store] max_bytes, or allow [store] evict"
        yield warning(f"{check}.size", text, remedy)
