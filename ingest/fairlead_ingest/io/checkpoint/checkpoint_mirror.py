"""A checkpoint's copy in an object store: written before each commit, read where the job starts on another machine.

    sink, batch N planned, its state written ─▶ save ─▶ the table's commit of batch N ─▶ Spark's own

A copy is what a kill at that moment would leave on disk, so a start from it is a start after such a kill: batch N is
planned, is done again as it was planned, and the table says whether it holds it. The copy is never older than the
table by more than that, unless another job has written one in between; then ``remote_checkpoint`` does without it.
One small object names everything and is put last; state goes up before, each file once, in one archive a batch.
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
"""In the folder: which of its files of state are in the store, and in which archive."""
BEFORE: Final = "fairlead-before.json"
"""In the folder: whose copies its own have replaced."""
ORPHAN_SECONDS: Final = 3600
DOWNLOADS_AT_ONCE: Final = 8


class _MirroredFile(msgspec.Struct, frozen=True):
    """A file of state, as it was when it went up."""

    archive: str
    size: int
    modified: int


_known = msgspec.json.Decoder(dict[str, _MirroredFile])


def save(folder: Path, place: StorePath, batch: int) -> None:
    """Copy what a start at ``batch`` needs.  Raises ``Wait``, ``Stop``."""
    there = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]
    texts, state = checkpoint_copy.needed(there, batch)
    # Spark tidies up beside us, what is old.
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
    """Asked once: another machine may have begun beside this one, and put its copy first."""
    try:
        return msgspec.json.decode((folder / BEFORE).read_bytes(), type=list[str])
    except (OSError, msgspec.DecodeError):
        found = checkpoint_copy.replaced(page_of(place))
    mine = (folder / "metadata").read_text() if (folder / "metadata").exists() else ""
    others = [each for each in found if each and each != mine]
    (folder / BEFORE).write_bytes(msgspec.json.encode(others))
    return others


def page_of(place: StorePath) -> CheckpointPage | None:
    """The newest copy, None where there is none.  Raises ``Wait``, ``Stop``."""
    content = object_store.found(place / PAGE)
    return None if content is None else checkpoint_copy.decode(content, place / PAGE)


def restore(page: CheckpointPage, folder: Path, place: StorePath) -> bool:
    """Fill ``folder``; False where a part is missing in the store, or damaged.  Raises ``Wait``, ``Stop``."""
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
    """All but the state."""
    for path, text in page.texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


def tidy(page: CheckpointPage | None, place: StorePath, now: datetime.datetime) -> None:
    """Delete archives that no copy names, as a kill leaves them; young ones may be of a copy that is being made."""
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
    """A batch that is done again writes its state again, under the same name."""
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
                raise errors.Stop(errors.BAD_CHECKPOINT, f"{place / archive}: {path} is no file")
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            with content, (folder / path).open("wb") as out:
                shutil.copyfileobj(content, out)
            stat = (folder / path).stat()
            found[path] = _MirroredFile(archive, stat.st_size, stat.st_mtime_ns)
    return found
