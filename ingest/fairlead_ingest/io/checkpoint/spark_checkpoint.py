"""What Spark wrote into a checkpoint: which query it is, and where each batch ends.

Spark logs a batch's end before it runs the batch, so at commit time the file is there: the sink learns the positions of
the batch from the same place Spark will start again from. The checkpoint is a folder this machine can read.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from fairlead_ingest import errors
from fairlead_ingest.source import offsets
from fairlead_ingest.source.offsets import Offsets, TopicOffset
from fairlead_ingest.table import commit


class _Metadata(msgspec.Struct):
    id: str


def query_id(checkpoint: Path) -> str:
    """The identity Spark gave this checkpoint. Raises ``Stop`` where there is none yet."""
    try:
        return msgspec.json.decode((checkpoint / "metadata").read_bytes(), type=_Metadata).id
    except (OSError, msgspec.DecodeError) as error:
        raise errors.Stop(errors.BAD_CHECKPOINT, f"{checkpoint}/metadata: {error}") from error


def application_of(metadata: str) -> str:
    """The same of the text of that file; "" where it is none."""
    try:
        return commit.application_id(msgspec.json.decode(metadata, type=_Metadata).id)
    except msgspec.DecodeError:
        return ""


def application(checkpoint: Path) -> str:
    """The name under which tables know this checkpoint. Raises ``Stop`` where there is none yet."""
    return commit.application_id(query_id(checkpoint))


def is_fresh(checkpoint: Path) -> bool:
    """No batch was ever planned here, so the query starts at its starting position."""
    return not _planned(checkpoint)


def begun(checkpoint: Path) -> Offsets:
    """Where the oldest batch begins that Spark still knows; no places where it knows none."""
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
    """The newest batch Spark knows to be in the table, None where it knows of none."""
    return max(_numbers(checkpoint / "commits"), default=None)


def has(checkpoint: Path, batch: int) -> bool:
    """Spark still keeps where ``batch`` ends."""
    return (checkpoint / "offsets" / str(batch)).is_file()


def end_of(checkpoint: Path, batch: int) -> Offsets:
    """Where ``batch`` ends, no places at all behind another source.

    Raises ``Stop`` where Spark has not planned it, ``Wait`` where another job has left it behind.
    """
    try:
        lines = (checkpoint / "offsets" / str(batch)).read_text().splitlines()
    except OSError as error:
        if max(_planned(checkpoint), default=-1) > batch:
            # Spark keeps the last few; ours is not among them, so another job has planned all of those.
            raise errors.Wait(
                errors.CHECKPOINT_TAKEN, f"another job uses {checkpoint}, and has gone on since batch {batch}"
            ) from error
        raise errors.Stop(errors.BAD_CHECKPOINT, f"{checkpoint}: batch {batch}: {error}") from error
    # A version line, a line of query settings, then one line for each source; a Fairlead query has one source.
    if len(lines) < 3:
        raise errors.Stop(errors.BAD_CHECKPOINT, f"{checkpoint}: batch {batch} has no offset")
    return offsets.parse_offsets(lines[2]) if _is_ours(lines[2]) else Offsets()


def _is_ours(text: str) -> bool:
    try:
        plain = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return True  # whatever it was, parse says what is wrong with it
    return not isinstance(plain, dict) or "svc" in plain


def _planned(checkpoint: Path) -> list[int]:
    """The batches Spark still knows the ends of."""
    return _numbers(checkpoint / "offsets")


def _numbers(folder: Path) -> list[int]:
    return [int(entry.name) for entry in folder.iterdir() if entry.name.isdigit()] if folder.is_dir() else []
