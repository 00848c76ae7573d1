"""Searches a failing batch for the messages that cause the failure, the last resort before a pipeline stops.

Parts of the batch are tried as the batch would be: fetched, passed through the schema and the user's transforms, and
written by the sink's own code, into a temporary folder. A message that fails alone becomes a dead letter, with the
reason, when the batch is tried again.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict
from pathlib import Path

from fairlead_ingest import errors
from fairlead_ingest.io.spark.connect import ABOUT_QUERIES
from fairlead_ingest.pipeline import failures
from fairlead_ingest.source.offset_ranges import OffsetRange
from fairlead_ingest.source.offsets import Offsets
from fairlead_messaging.client.io.sync_client import BulkClient
from fairlead_wire.io import logs

log = logs.get("ingest.failing_messages")
# Up to this many messages, a range is split at a message id; a larger one by the service's own count.
NAMED_ROWS_MAX = 1000
FOLDER = "fairlead-probe"


class Search:
    """Searches the batch that ends at ``end``, one trial a step.

    ``probe`` processes the given ranges without committing, and raises the error of a failing part.
    """

    def __init__(self, client: BulkClient, end: Offsets, probe: Callable[[str, Path], None], checkpoint: Path) -> None:
        self._client = client
        self._probe = probe
        self._scratch = checkpoint / FOLDER
        self._ranges = ranges_of(end)
        self._search: Generator[Sequence[OffsetRange], str | None, dict[OffsetRange, str]] = failures.search(
            self._ranges, self._split
        )
        self._asked: Sequence[OffsetRange] | None = None
        self.trials = 0
        self.found: dict[str, dict[str, str]] = {}

    def step(self) -> bool:
        """Run one trial; True when the search is done. Raises ``Wait``, ``TooMany`` and the service's errors."""
        try:
            if self._asked is None:
                self._asked = next(self._search)
            reason = self._try(self._asked)
            self._asked = self._search.send(reason)
        except StopIteration as done:
            found: dict[OffsetRange, str] = done.value
            for whole, why in found.items():
                for name in self._ids(whole):
                    self.found.setdefault(whole.topic, {})[name] = why
            return True
        return False

    def _try(self, ranges: Sequence[OffsetRange]) -> str | None:
        self.trials += 1
        shutil.rmtree(self._scratch, ignore_errors=True)
        try:
            self._probe(ranges_text(ranges), self._scratch / "rows")
        except ABOUT_QUERIES as error:
            code, sentence = errors.explain(str(error) or type(error).__name__)
            if code in errors.TEMPORARY and code is not None:
                raise errors.Wait(code, sentence) from error
            return sentence
        finally:
            shutil.rmtree(self._scratch, ignore_errors=True)
        return None

    def _split(self, whole: OffsetRange) -> Sequence[OffsetRange]:
        if whole.rows <= NAMED_ROWS_MAX:
            names = self._ids(whole)
            if len(names) < 2:
                return [_cut(whole, rows=1)] if names else []
            middle = len(names) // 2
            cut = names[middle - 1]
            return [_cut(whole, upto=cut, rows=middle), _cut(whole, after=cut, rows=len(names) - middle)]
        plan = self._client.plan(
            whole.topic,
            after=whole.after,
            upto=whole.upto,
            limit_rows=whole.rows // 2,
            generation=whole.generation or None,
        )
        if not plan.rows or plan.upto is None or plan.upto >= whole.upto:
            return [whole] if plan.rows else []
        rest = max(1, whole.rows - plan.rows)
        return [_cut(whole, upto=plan.upto, rows=plan.rows), _cut(whole, after=plan.upto, rows=rest)]

    def _ids(self, whole: OffsetRange) -> list[str]:
        names: list[str] = []
        after = whole.after
        while after < whole.upto:
            page = self._client.poll(
                whole.topic,
                after=after,
                upto=whole.upto,
                limit_rows=NAMED_ROWS_MAX,
                generation=whole.generation or None,
            )
            names += [value.hex() for value in page.table["id"].to_pylist()]
            if page.next_position <= after:
                break
            after = page.next_position
        return names


def ranges_of(end: Offsets) -> list[OffsetRange]:
    """One range for each topic that the batch reads."""
    found = []
    for topic, offset in end.topics.items():
        after = offset.read_from
        if offset.rows and offset.position > after:
            found.append(
                OffsetRange(
                    topic=topic, generation=offset.generation, after=after, upto=offset.position, rows=offset.rows
                )
            )
    return found


def ranges_text(ranges: Sequence[OffsetRange]) -> str:
    """The source's option ``ranges`` to read only these."""
    return json.dumps([asdict(whole) for whole in ranges])


def _cut(whole: OffsetRange, *, after: str | None = None, upto: str | None = None, rows: int) -> OffsetRange:
    return OffsetRange(
        topic=whole.topic,
        generation=whole.generation,
        after=whole.after if after is None else after,
        upto=whole.upto if upto is None else upto,
        rows=rows,
    )
