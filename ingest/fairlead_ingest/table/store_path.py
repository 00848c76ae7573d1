"""A path in an object store with the interface of ``Path`` (``/``, ``name``, ``with_name``, ``str``), and a check that
the folders of a job do not overlap.

    s3://bucket/plant/telemetry   ─ parse ─▶   StorePath(bucket="bucket", key="plant/telemetry", storage=…)

A store has no folders to create, lock or sync. ``storage`` has the access settings without secrets, because it is
passed in the options of a query, which Spark shows; secrets are read from files or the environment where needed.

A pipeline has five folders: rows, dead letters, gaps, repairs and the checkpoint; a sixth for a latest table. A folder
inside a table would be read as part of it, or deleted by a vacuum, and a folder used twice would contain two tables.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from fairlead_wire.validation import listen_address, mistakes
from fairlead_wire.validation.mistakes import wrong

SCHEME: Final = "s3://"
UNTRIED: Final = {
    **dict.fromkeys(("az", "azure", "abfs", "abfss", "adl", "wasb", "wasbs"), "Azure"),
    **dict.fromkeys(("gs", "gcs"), "Google Cloud Storage"),
}
"""Unsupported stores by their usual schemes."""
KEY_CHARS_MAX: Final = 700
"""A store allows 1,024 bytes, and names of partitions and files are appended."""
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_HEADER = re.compile(r"[!-~]+")
_PART = re.compile(r"[A-Za-z0-9!_.*'()=+@,&$ -]+")


class Storage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Access to a store; missing values are taken from the environment (``AWS_…``), else from the machine's role."""

    endpoint_url: str | None = None
    region: str | None = None
    access_key_id: str | None = None
    secret_access_key_file: str | None = None
    session_token_file: str | None = None


FROM_ENVIRONMENT: Final = Storage()


@dataclass(frozen=True, slots=True)
class StorePath:
    """See the module. ``str()`` is the URL."""

    bucket: str
    key: str
    storage: Storage = field(default=FROM_ENVIRONMENT, compare=False)

    def __truediv__(self, name: str) -> StorePath:
        return StorePath(self.bucket, f"{self.key}/{name}", self.storage)

    def __str__(self) -> str:
        return f"{SCHEME}{self.bucket}/{self.key}"

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]

    def with_name(self, name: str) -> StorePath:
        """The path with another last part."""
        above, slash, _ = self.key.rpartition("/")
        return StorePath(self.bucket, f"{above}{slash}{name}", self.storage)

    def absolute(self) -> StorePath:
        return self


Place = Path | StorePath
"""The place of a table: a folder or a path in a store."""


def is_header(text: str) -> bool:
    """Whether a key id, token or region can be sent in a request header."""
    return _HEADER.fullmatch(text) is not None


def check_endpoint(address: str) -> None:
    """Raise ``ValueError`` if the address of a store is invalid."""
    try:
        url = urlsplit(address)
        host = "" if url.port == 0 else url.hostname or ""
    except ValueError:
        host = ""
    if not host or url.scheme not in ("http", "https") or "@" in url.netloc:
        raise ValueError(f"must be https://host:port, is {mistakes.shown(address)}")
    if url.scheme == "http" and not listen_address.is_loopback(host):
        raise ValueError(f"must be https:// (http:// is for loopback), is {mistakes.shown(address)}")


def is_url(text: str) -> bool:
    """Whether the text is a URL, even with a slash missing, which would otherwise be a folder named ``s3:``."""
    return "://" in text or _URL.match(text) is not None


def parse(text: str, storage: Storage = FROM_ENVIRONMENT) -> StorePath:
    """Parse the URL of a path in a store. Raises ``ValueError``."""
    scheme = text.partition(":")[0].lower()
    if scheme in UNTRIED:
        raise ValueError(
            f"only {SCHEME}bucket/path is supported, not {UNTRIED[scheme]}, which has not been tested; use a store with"
            f" the S3 API, or a folder; is {mistakes.shown(text)}"
        )
    if scheme in ("s3a", "s3n"):
        raise ValueError(
            f"only {SCHEME}bucket/path is supported: write {SCHEME}, Hadoop's jars are not needed;"
            f" is {mistakes.shown(text)}"
        )
    if not text.startswith(SCHEME):
        raise ValueError(f"only {SCHEME}bucket/path is supported, is {mistakes.shown(text)}")
    bucket, _, key = text[len(SCHEME) :].partition("/")
    key = key.rstrip("/")
    if _BUCKET.fullmatch(bucket) is None:
        raise ValueError(f"must name a bucket: {SCHEME}bucket/path, is {mistakes.shown(text)}")
    parts = key.split("/")
    if not key or len(key) > KEY_CHARS_MAX or not all(_PART.fullmatch(each) and set(each) - {"."} for each in parts):
        raise ValueError(f"must name a path in the bucket, of letters, digits and -_.=, is {mistakes.shown(text)}")
    return StorePath(bucket, key, storage)


def place(text: str, storage: Storage = FROM_ENVIRONMENT) -> Place:
    """An absolute folder or a path in a store. Raises ``ValueError``."""
    return parse(text, storage) if is_url(text) else Path(text).absolute()


DEAD_LETTERS = "_dead_letters"
GAPS = "_gaps"
LATEST = "_latest"
REPAIRS = "_repairs"


def check(pipelines: Iterable[tuple[str, str, str]], with_latest: Collection[str] = ()) -> None:
    """Raise ``mistakes.Wrong`` if folders overlap. Pipelines are given as (name, table, checkpoint); ``with_latest``
    names those that have a latest table."""
    used: list[tuple[tuple[str, ...], str, str]] = []
    for name, table, checkpoint in pipelines:
        for suffix, what in (("", "rows"), (DEAD_LETTERS, "dead letters"), (GAPS, "gaps"), (REPAIRS, "repairs")):
            used.append((_parts(table.rstrip("/") + suffix), "table", f"the {what} of {name}"))
        if name in with_latest:
            used.append((_parts(table.rstrip("/") + LATEST), "table", f"the latest table of {name}"))
        used.append((_parts(checkpoint), "checkpoint", f"the checkpoint of {name}"))
    # When sorted, a folder comes directly before those inside it.
    outer: list[tuple[tuple[str, ...], str, str]] = []
    for folder in sorted(used, key=lambda each: each[0]):
        while outer and folder[0][: len(outer[-1][0])] != outer[-1][0]:
            outer.pop()
        if outer:
            _refuse(outer[-1], folder)
        outer.append(folder)


def _refuse(outer: tuple[tuple[str, ...], str, str], inner: tuple[tuple[str, ...], str, str]) -> None:
    keys = {outer[1], inner[1]}
    key = "checkpoint" if "checkpoint" in keys else "table"
    path = "/".join(inner[0]).replace(":/", "://", 1) or "/"
    if outer[0] == inner[0]:
        raise wrong(key, f"{path} would be {outer[2]} and {inner[2]}; use separate folders")
    if outer[1] == "table" and inner[0][len(outer[0])][:1] in ("_", "."):
        return  # hidden from readers and vacuum
    raise wrong(key, f"{path}, {inner[2]}, is inside {outer[2]}; move it outside")


def _parts(path: str) -> tuple[str, ...]:
    return tuple(posixpath.normpath(path).split("/"))
