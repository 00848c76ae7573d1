"""How pyiceberg reads and writes the files of a table: with our credentials, durably, and with a cache.

Metadata files of a table never change; a new version has new names. So this process caches what it has read or written,
up to a limit, and most commits read nothing back.
"""

from __future__ import annotations

import io
import os
import threading
from collections import OrderedDict
from pathlib import Path
from types import TracebackType
from typing import Final
from urllib.parse import urlsplit

import msgspec
from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, OutputStream
from pyiceberg.table import TableProperties
from pyiceberg.typedef import EMPTY_DICT, Properties

from fairlead_ingest import errors
from fairlead_ingest.io.table import object_store
from fairlead_ingest.io.table.files import sync
from fairlead_ingest.table.store_path import SCHEME, Place, Storage, StorePath
from fairlead_wire.validation import mistakes

STORAGE: Final = "fairlead.storage"
"""The property with the storage settings as JSON."""
KEPT_BYTES_MAX: Final = 32 * 1024 * 1024
_PATHS: Final = (TableProperties.WRITE_METADATA_PATH, TableProperties.WRITE_DATA_PATH)
_KEPT_ENDINGS: Final = (".avro", ".json")


class _SmallFiles:
    """A least-recently-used cache of small files by location. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: OrderedDict[str, bytes] = OrderedDict()
        self._bytes = 0

    def get(self, location: str) -> bytes | None:
        with self._lock:
            found = self._files.get(location)
            if found is not None:
                self._files.move_to_end(location)
            return found

    def put(self, location: str, content: bytes) -> None:
        if not location.endswith(_KEPT_ENDINGS) or len(content) > KEPT_BYTES_MAX:
            return
        with self._lock:
            self._bytes += len(content) - len(self._files.pop(location, b""))
            self._files[location] = content
            while self._bytes > KEPT_BYTES_MAX:
                self._bytes -= len(self._files.popitem(last=False)[1])

    def drop(self, location: str) -> None:
        with self._lock:
            self._bytes -= len(self._files.pop(location, b""))


_kept = _SmallFiles()


def location_of(table: Place) -> str:
    """The location of a table as Iceberg writes it."""
    return str(table) if isinstance(table, StorePath) else f"file://{table}"


def place_of(location: str, storage: Storage) -> Place:
    """The file or folder of a location. Raises ``ValueError``."""
    if location.startswith(("s3a://", "s3n://")):
        location = SCHEME + location.partition("://")[2]
    if location.startswith(SCHEME):
        bucket, _, key = location[len(SCHEME) :].partition("/")
        return StorePath(bucket, key.rstrip("/"), storage)
    if location.startswith("/"):
        return Path(location)
    if location.startswith("file:/"):
        return Path("/" + location.removeprefix("file:").lstrip("/"))
    raise ValueError(f"{location[:200]!r}: only {SCHEME} and folders are supported, not {urlsplit(location).scheme}://")


def plain(location: str) -> str:
    """Normalise a location: engines write ``/x``, ``file:/x`` or ``file:///x``, and ``s3://`` or ``s3a://``."""
    if location.startswith("file:"):
        return "/" + location.removeprefix("file:").lstrip("/").rstrip("/")
    return location.replace("s3a://", "s3://", 1).replace("s3n://", "s3://", 1).rstrip("/")


def relative(table: Place, location: str) -> str:
    """The path of one of the table's files relative to ``table``, whichever engine wrote it. Raises ``Stop``."""
    above, found = f"{plain(location_of(table))}/", plain(location)
    if not found.startswith(above):
        raise errors.Stop(
            errors.TABLE_UNFIT,
            f"{table}: its file {location} is outside the table (write.data.path?), which is not supported",
        )
    return found.removeprefix(above)


def refuse_elsewhere(table: Place, properties: Properties) -> None:
    """Raise ``Stop`` if a property of the table puts new files elsewhere.

    Any writer may set it, but ours must be below the table, where its permissions apply and vacuum finds them.
    """
    above = plain(location_of(table))
    for key in _PATHS:
        named = properties.get(key)
        if named is None:
            continue
        found = plain(named)
        if not f"{found}/".startswith(f"{above}/") or ".." in found.split("/"):
            raise errors.Stop(
                errors.TABLE_UNFIT,
                f"{table}: its property {key} names {mistakes.shown(named)}, which is not below the table and is not"
                " supported; remove the property",
            )


def properties(storage: Storage) -> dict[str, str]:
    """The catalog properties that make pyiceberg use this module."""
    return {
        "py-io-impl": f"{TableFiles.__module__}.{TableFiles.__qualname__}",
        STORAGE: msgspec.json.encode(storage).decode(),
    }


def of_table(catalog: Properties, table: Properties) -> TableFiles:
    """The file access for a table. Raises ``Stop`` if its properties name a class, which any writer may set and which
    pyiceberg would load at a commit."""
    named = table.get(TableProperties.WRITE_PY_LOCATION_PROVIDER_IMPL)
    if named:
        raise errors.Stop(
            errors.TABLE_UNFIT,
            f"the table's property {TableProperties.WRITE_PY_LOCATION_PROVIDER_IMPL} names code to load"
            f" ({mistakes.shown(named)}), which is not allowed; remove the property",
        )
    return TableFiles(catalog)


class TableFiles(FileIO):
    """Our ``FileIO``, named in the catalog's properties; pyiceberg creates one for each table."""

    def __init__(self, properties: Properties = EMPTY_DICT) -> None:
        super().__init__(properties)
        self._storage = msgspec.json.decode(properties.get(STORAGE, "{}"), type=Storage)

    def new_input(self, location: str) -> InputFile:
        return _Input(location, self._storage)

    def new_output(self, location: str) -> OutputFile:
        return _Output(location, self._storage)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Delete a file; it may already be gone."""
        name = location if isinstance(location, str) else location.location
        _kept.drop(name)
        place = place_of(name, self._storage)
        if isinstance(place, Path):
            place.unlink(missing_ok=True)
        else:
            object_store.delete(place)


class _Input(InputFile):
    def __init__(self, location: str, storage: Storage) -> None:
        super().__init__(location)
        self._storage = storage

    def __len__(self) -> int:
        return len(self._content())

    def exists(self) -> bool:
        try:
            self._content()
        except FileNotFoundError:
            return False
        return True

    def open(self, seekable: bool = True) -> InputStream:
        return io.BytesIO(self._content())

    def _content(self) -> bytes:
        found = _kept.get(self.location)
        if found is None:
            place = place_of(self.location, self._storage)
            found = place.read_bytes() if isinstance(place, Path) else object_store.read(place)
            _kept.put(self.location, found)
        return found


class _Output(OutputFile):
    """A file that appears, durably, when its stream is closed."""

    def __init__(self, location: str, storage: Storage) -> None:
        super().__init__(location)
        self._storage = storage
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def exists(self) -> bool:
        """Always False, because each metadata file gets a new unique name."""
        return False

    def to_input_file(self) -> InputFile:
        return _Input(self.location, self._storage)

    def create(self, overwrite: bool = False) -> OutputStream:
        return _UploadStream(self)

    def finish(self, content: bytes) -> None:
        place = place_of(self.location, self._storage)
        if isinstance(place, Path):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
            sync(place)
            sync(place.parent)
        else:
            object_store.write(place, content)
        self._size = len(content)
        _kept.put(self.location, content)


class _UploadStream(io.BytesIO):
    def __init__(self, file: _Output) -> None:
        super().__init__()
        self._file = file

    def close(self) -> None:
        """Write the file, once."""
        if not self.closed:
            content = self.getvalue()
            super().close()
            self._file.finish(content)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            super().close()


def age(place: Path) -> float:
    """The modification time in seconds since 1970; infinite if the file is gone."""
    try:
        return os.stat(place).st_mtime
    except FileNotFoundError:
        return float("inf")
