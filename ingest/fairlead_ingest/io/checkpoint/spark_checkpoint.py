"""Reads Spark's own files in a checkpoint: the id of the query, and where each batch ends.

Spark logs the end of a batch before it runs it, so the file exists at commit time, and the sink takes a batch's
positions from where Spark will restart. The checkpoint is a folder this machine can read.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from fairlead_ingest import errors
from fairlead_ingest.source import offsets
from fairlead_ingest.source.offsets import Offsets, TopicOffset
from fairlead_ingest.table import commit
from fairlead_wire.errors import cause_of


class _Metadata(msgspec.Struct):
    id: str


def query_id(checkpoint: Path) -> str:
    """The id Spark gave the query of this checkpoint. Raises ``Stop`` if there is none yet."""
    try:
        return msgspec.json.decode((checkpoint / "metadata").read_bytes(), type=_Metadata).id
    except (OSError, msgspec.DecodeError) as error:
        raise errors.Stop(errors.BAD_CHECKPOINT, f"{checkpoint}/metadata: {cause_of(error)}") from error


def application_of(metadata: str) -> str:
    """The application for the text of Spark's file ``metadata``; "" if the text is not one."""
    try:
        return commit.application_id(msgspec.json.decode(metadata, type=_Metadata).id)
    except msgspec.DecodeError:
        return ""


def application(checkpoint: Path) -> str:
    """The application id that tables record for this checkpoint. Raises ``Stop`` if there is none yet."""
    return commit.application_id(query_id(checkpoint))


def is_fresh(checkpoint: Path) -> bool:
    """No batch was planned here yet, so the query begins at its starting position."""
    return not _planned(checkpoint)


def begun(checkpoint: Path) -> Offsets:
    """The beginning of the oldest batch that Spark still keeps; empty if it keeps none."""
    oldest = min(_planned(checkpoint), default=None)
    if oldest is None:
        return Offsets()
    end = end_of(checkpoint, oldest)
    return Offsets(
        topics={
            topic: TopicOffset.at(offset.start_generation, offset.start_position)
            for topic, offset in end.topics.items()
        }
    )


def last_planned(checkpoint: Path) -> int:
    """The newest batch Spark has planned, -1 for none."""
    return max(_planned(checkpoint), default=-1)


def last_committed(checkpoint: Path) -> int | None:
    """The newest batch that Spark has marked as committed, None if there is none."""
    return max(_numbers(checkpoint / "commits"), default=None)


def has(checkpoint: Path, batch: int) -> bool:
    """Whether Spark still keeps the end of ``batch``."""
    return (checkpoint / "offsets" / str(batch)).is_file()


def end_of(checkpoint: Path, batch: int) -> Offsets:
    """The end of ``batch``, empty if the query reads from another source.

    Raises ``Stop`` if Spark has not planned it, ``Wait`` if another job using this checkpoint has moved past it.
    """
    try:
        lines = (checkpoint / "offsets" / str(batch)).read_text().splitlines()
    except OSError as error:
        if max(_planned(checkpoint), default=-1) > batch:
            # Spark keeps the last few batches. Ours is not among them, so another job has planned them.
            raise errors.Wait(
                errors.CHECKPOINT_TAKEN,
                f"another job uses {checkpoint} and is already past batch {batch}; stop one of them",
            ) from error
        raise errors.Stop(errors.BAD_CHECKPOINT, f"{checkpoint}: batch {batch}: {cause_of(error)}") from error
    # A version line, a line of query settings, then one line for each source; a Fairlead query has one source.
    if len(lines) < 3:
        raise errors.Stop(errors.BAD_CHECKPOINT, f"{checkpoint}: batch {batch} has no offset")
    return offsets.parse_offsets(lines[2]) if _is_ours(lines[2]) else Offsets()


def _is_ours(text: str) -> bool:
    try:
        plain = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return True  # parse_offsets says what is wrong with it
    return not isinstance(plain, dict) or "svc" in plain


def _planned(checkpoint: Path) -> list[int]:
    """The batches whose ends Spark still keeps."""
    return _numbers(checkpoint / "offsets")


def _numbers(folder: Path) -> list[int]:
    return [int(entry.name) for entry in folder.iterdir() if entry.name.isdigit()] if folder.is_dir() else []
