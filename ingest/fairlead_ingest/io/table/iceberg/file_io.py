"""How pyiceberg reads and writes the files of a table: with our credentials, durably, and nothing twice.

Metadata of a table never changes once it is written: a new version has new names.  So what this process has read or
written is kept, up to a limit, and most commits read nothing back.
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
"""The property with how the store is reached, as JSON."""
KEPT_BYTES_MAX: Final = 32 * 1024 * 1024
_PATHS: Final = (TableProperties.WRITE_METADATA_PATH, TableProperties.WRITE_DATA_PATH)
_KEPT_ENDINGS: Final = (".avro", ".json")


class _SmallFiles:
    """Small files by their location, the longest unused dropped first.  Thread-safe."""

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
    """As Iceberg writes it down."""
    return str(table) if isinstance(table, StorePath) else f"file://{table}"


def place_of(location: str, storage: Storage) -> Place:
    """The file or folder of a location.  Raises ``ValueError``."""
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
    """Engines write one folder as `/x`, `file:/x` and `file:///x`, one bucket as `s3://` and `s3a://`."""
    if location.startswith("file:"):
        return "/" + location.removeprefix("file:").lstrip("/").rstrip("/")
    return location.replace("s3a://", "s3://", 1).replace("s3n://", "s3://", 1).rstrip("/")


def relative(table: Place, location: str) -> str:
    """The path below ``table`` of one of its files, whichever engine wrote it.  Raises ``Stop``."""
    above, found = f"{plain(location_of(table))}/", plain(location)
    if not found.startswith(above):
        raise errors.Stop(
            errors.TABLE_UNFIT,
            f"{table}: its file {location} lies elsewhere (write.data.path?): not supported",
        )
    return found.removeprefix(above)


def refuse_elsewhere(table: Place, properties: Properties) -> None:
    """Any writer of a table may set where new files go; ours stay below the table, where its rights and vacuum reach.

    Raises ``Stop``.
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
                f"{table}: its property {key} names {mistakes.shown(named)}, which is not below the table: not"
                " supported; remove the property",
            )


def properties(storage: Storage) -> dict[str, str]:
    """Of a catalog whose files are read and written here."""
    return {
        "py-io-impl": f"{TableFiles.__module__}.{TableFiles.__qualname__}",
        STORAGE: msgspec.json.encode(storage).decode(),
    }


def of_table(catalog: Properties, table: Properties) -> TableFiles:
    """Of a table with these properties, in a catalog with those. Raises ``Stop``: any writer of the table may name a
    class there, and pyiceberg would load it when it commits."""
    named = table.get(TableProperties.WRITE_PY_LOCATION_PROVIDER_IMPL)
    if named:
        raise errors.Stop(
            errors.TABLE_UNFIT,
            f"the table's property {TableProperties.WRITE_PY_LOCATION_PROVIDER_IMPL} names code to load"
            f" ({mistakes.shown(named)}), which is not done; remove it",
        )
    return TableFiles(catalog)


class TableFiles(FileIO):
    """Named in the properties of a catalog; pyiceberg makes one for each table."""

    def __init__(self, properties: Properties = EMPTY_DICT) -> None:
        super().__init__(properties)
        self._storage = msgspec.json.decode(properties.get(STORAGE, "{}"), type=Storage)

    def new_input(self, location: str) -> InputFile:
        return _Input(location, self._storage)

    def new_output(self, location: str) -> OutputFile:
        return _Output(location, self._storage)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Also where it is gone already."""
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
    """There when its stream is closed, and durable."""

    def __init__(self, location: str, storage: Storage) -> None:
        super().__init__(location)
        self._storage = storage
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def exists(self) -> bool:
        """Names of metadata are made up anew for each file, so that none is ever there."""
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
        """What is written goes where it belongs, once."""
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
    """Seconds since 1970 of its last change; far in the future where it is gone."""
    try:
        return os.stat(place).st_mtime
    except FileNotFoundError:
        return float("inf")
