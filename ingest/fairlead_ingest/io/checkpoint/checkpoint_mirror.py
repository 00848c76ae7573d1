"""Copies a checkpoint to an object store before each commit, so that the job can start on another machine.

    batch N planned, its state written ─▶ save ─▶ the table's commit of batch N ─▶ Spark's own commit

A copy is what a kill at that moment would leave on disk. A start from it repeats batch N as it was planned, and the
table says whether it already holds it. The copy is at most one batch behind the table, unless another job wrote one in
between; ``checkpoint_folder`` then starts without it. State files are uploaded first, each once, in one archive per
batch; a small page that names everything is written last.
"""

from __future__ import annotations

import datetime
import shutil
import tarfile
import uuid
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import Final

import msgspec

from fairlead_ingest import errors
from fairlead_ingest.io.table import object_store
from fairlead_ingest.pipeline import checkpoint_copy
from fairlead_ingest.pipeline.checkpoint_copy import PAGE, STATE, CheckpointPage
from fairlead_ingest.table.store_path import StorePath
from fairlead_wire.io import logs

log = logs.get("ingest.checkpoint")
KNOWN: Final = "fairlead-mirrored.json"
"""A file in the folder that lists the state files already in the store, with their archives."""
BEFORE: Final = "fairlead-before.json"
"""A file in the folder that lists the queries whose copies this one has replaced."""
ORPHAN_SECONDS: Final = 3600
DOWNLOADS_AT_ONCE: Final = 8


class _MirroredFile(msgspec.Struct, frozen=True):
    """A state file as it was when it was uploaded."""

    archive: str
    size: int
    modified: int


_known = msgspec.json.Decoder(dict[str, _MirroredFile])


def save(folder: Path, place: StorePath, batch: int) -> None:
    """Copy the files that a start at ``batch`` needs. Raises ``Wait``, ``Stop``."""
    there = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]
    texts, state = checkpoint_copy.needed(there, batch)
    # Spark deletes old files concurrently.
    state = [path for path in state if (folder / path).exists()]
    before = _read_known(folder)
    known = {path: kept for path in state if (kept := _same(folder, path, before.get(path))) is not None}
    new = [path for path in state if path not in known]
    if new:
        known |= _upload(folder, place, f"{STATE}/{batch}-{uuid.uuid4().hex}.tar", new)
    archives = checkpoint_copy.grouped({path: kept.archive for path, kept in known.items()}, known)
    page = CheckpointPage(
        batch=batch,
        texts={path: (folder / path).read_text() for path in texts if (folder / path).exists()},
        archives=archives,
        before=_before(folder, place),
    )
    object_store.write(place / PAGE, checkpoint_copy.encode(page))
    if known != before:
        (folder / KNOWN).write_bytes(msgspec.json.encode(known))
        object_store.delete_below(place, {kept.archive for kept in before.values()} - archives.keys())


def _before(folder: Path, place: StorePath) -> list[str]:
    """The queries whose copies this one replaces, read from the store only once: another machine may start too."""
    try:
        return msgspec.json.decode((folder / BEFORE).read_bytes(), type=list[str])
    except (OSError, msgspec.DecodeError):
        found = checkpoint_copy.replaced(page_of(place))
    mine = (folder / "metadata").read_text() if (folder / "metadata").exists() else ""
    others = [each for each in found if each and each != mine]
    (folder / BEFORE).write_bytes(msgspec.json.encode(others))
    return others


def page_of(place: StorePath) -> CheckpointPage | None:
    """The newest copy, None if there is none. Raises ``Wait``, ``Stop``."""
    content = object_store.found(place / PAGE)
    return None if content is None else checkpoint_copy.decode(content, place / PAGE)


def restore(page: CheckpointPage, folder: Path, place: StorePath) -> bool:
    """Fill ``folder`` from the copy; False if a part is missing or damaged. Raises ``Wait``, ``Stop``."""
    try:
        with ThreadPoolExecutor(DOWNLOADS_AT_ONCE) as loading:
            found = list(loading.map(lambda each: _download(folder, place, *each), page.archives.items()))
    except (errors.Stop, KeyError, tarfile.TarError) as error:
        if isinstance(error, errors.Stop) and error.code not in (errors.TABLE_UNFIT, errors.BAD_CHECKPOINT):
            raise
        log.warning("checkpoint_incomplete", checkpoint=str(place), reason=str(error))
        return False
    write_texts(page, folder)
    (folder / KNOWN).write_bytes(msgspec.json.encode({path: kept for each in found for path, kept in each.items()}))
    return True


def write_texts(page: CheckpointPage, folder: Path) -> None:
    """Write all files of the copy except the state."""
    for path, text in page.texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


def tidy(page: CheckpointPage | None, place: StorePath, now: datetime.datetime) -> None:
    """Delete archives that a kill left behind; recent ones are kept, as they may belong to a copy in progress."""
    named = set() if page is None else set(page.archives)
    young = now.timestamp() - ORPHAN_SECONDS
    names = [f"{STATE}/{name}" for name, written in object_store.below(place / STATE) if written < young]
    object_store.delete_below(place, [name for name in names if name not in named])


def _read_known(folder: Path) -> dict[str, _MirroredFile]:
    try:
        return _known.decode((folder / KNOWN).read_bytes())
    except (OSError, msgspec.DecodeError):
        return {}


def _same(folder: Path, path: str, kept: _MirroredFile | None) -> _MirroredFile | None:
    """``kept`` if the file is unchanged; a repeated batch writes its state again under the same name."""
    found = (folder / path).stat()
    return kept if kept is not None and (found.st_size, found.st_mtime_ns) == (kept.size, kept.modified) else None


def _upload(folder: Path, place: StorePath, archive: str, paths: list[str]) -> dict[str, _MirroredFile]:
    upload = object_store.Upload(place / archive)
    found = {}
    with tarfile.open(mode="w|", fileobj=upload, format=tarfile.PAX_FORMAT) as packing:  # type: ignore[call-overload]
        for path in paths:
            stat = (folder / path).stat()
            packing.add(folder / path, arcname=path, recursive=False)
            found[path] = _MirroredFile(archive, stat.st_size, stat.st_mtime_ns)
    upload.finish()
    return found


def _download(folder: Path, place: StorePath, archive: str, paths: list[str]) -> dict[str, _MirroredFile]:
    found = {}
    with tarfile.open(fileobj=BytesIO(object_store.read(place / archive))) as packed:
        for path in paths:
            content = packed.extractfile(path)
            if content is None:
                raise errors.Stop(errors.BAD_CHECKPOINT, f"{place / archive}: {path} is not a regular file")
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            with content, (folder / path).open("wb") as out:
                shutil.copyfileobj(content, out)
            stat = (folder / path).stat()
            found[path] = _MirroredFile(archive, stat.st_size, stat.st_mtime_ns)
    return found
