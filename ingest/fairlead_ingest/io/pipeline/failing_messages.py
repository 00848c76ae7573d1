"""Trying parts of a batch that fails, to find the message that does it: the last resort before a pipeline stops.

A part is tried as the batch would be: fetched, through the schema and the user's transforms, written by the sink's own
code, into a folder that is thrown away. What fails alone becomes a dead letter, with its reason, when the batch is
tried again.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict
from pathlib import Path

from fairlead_ingest import errors
from fairlead_ingest.io.pipeline.session import UNDERSTOOD
from fairlead_ingest.pipeline import halving
from fairlead_ingest.pipeline.halving import Piece
from fairlead_ingest.source.offsets import Offsets
from fairlead_messaging.client.io.bulk_client import BulkClient
from fairlead_wire.io import logs

log = logs.get("ingest.poison")
# Below this many messages a piece is cut at one of them, above by the service's own count.
NAMED_ROWS_MAX = 1000
FOLDER = "fairlead-probe"


class Search:
    """Looks for what fails in the batch that ends at ``end``; one trial a step.

    ``probe`` runs a part of the batch through everything and raises what it meets.
    """

    def __init__(self, client: BulkClient, end: Offsets, probe: Callable[[str, Path], None], checkpoint: Path) -> None:
        self._client = client
        self._probe = probe
        self._scratch = checkpoint / FOLDER
        self._pieces = pieces_of(end)
        self._search: Generator[Sequence[Piece], str | None, dict[Piece, str]] = halving.search(
            self._pieces, self._split
        )
        self._asked: Sequence[Piece] | None = None
        self.trials = 0
        self.found: dict[str, dict[str, str]] = {}

    def step(self) -> bool:
        """One trial; True once all is known. Raises ``Wait``, ``TooMany``, and what the service raises."""
        try:
            if self._asked is None:
                self._asked = next(self._search)
            reason = self._try(self._asked)
            self._asked = self._search.send(reason)
        except StopIteration as done:
            found: dict[Piece, str] = done.value
            for piece, why in found.items():
                for name in self._ids(piece):
                    self.found.setdefault(piece.topic, {})[name] = why
            return True
        return False

    def _try(self, pieces: Sequence[Piece]) -> str | None:
        self.trials += 1
        shutil.rmtree(self._scratch, ignore_errors=True)
        try:
            self._probe(stretches_text(pieces), self._scratch / "rows")
        except UNDERSTOOD as error:
            code, sentence = errors.explain(str(error) or type(error).__name__)
            if code in errors.TEMPORARY and code is not None:
                raise errors.Wait(code, sentence) from error
            return sentence
        finally:
            shutil.rmtree(self._scratch, ignore_errors=True)
        return None

    def _split(self, piece: Piece) -> Sequence[Piece]:
        if piece.rows <= NAMED_ROWS_MAX:
            names = self._ids(piece)
            if len(names) < 2:
                return [_cut(piece, rows=1)] if names else []
            middle = len(names) // 2
            cut = names[middle - 1]
            return [_cut(piece, upto=cut, rows=middle), _cut(piece, after=cut, rows=len(names) - middle)]
        plan = self._client.plan(
            piece.topic,
            after=piece.after,
            upto=piece.upto,
            limit_rows=piece.rows // 2,
            generation=piece.generation or None,
        )
        if not plan.rows or plan.upto is None or plan.upto >= piece.upto:
            return [piece] if plan.rows else []
        rest = max(1, piece.rows - plan.rows)
        return [_cut(piece, upto=plan.upto, rows=plan.rows), _cut(piece, after=plan.upto, rows=rest)]

    def _ids(self, piece: Piece) -> list[str]:
        names: list[str] = []
        after = piece.after
        while after < piece.upto:
            page = self._client.poll(
                piece.topic,
                after=after,
                upto=piece.upto,
                limit_rows=NAMED_ROWS_MAX,
                generation=piece.generation or None,
            )
            names += [value.hex() for value in page.table["id"].to_pylist()]
            if page.next_position <= after:
                break
            after = page.next_position
        return names


def pieces_of(end: Offsets) -> list[Piece]:
    """One piece for each topic that the batch reads."""
    found = []
    for topic, place in end.topics.items():
        after = place.begin
        if place.r and place.p > after:
            found.append(Piece(topic=topic, generation=place.g, after=after, upto=place.p, rows=place.r))
    return found


def stretches_text(pieces: Sequence[Piece]) -> str:
    """The source's option that reads these and nothing else."""
    return json.dumps([asdict(piece) for piece in pieces])


def _cut(piece: Piece, *, after: str | None = None, upto: str | None = None, rows: int) -> Piece:
    return Piece(
        topic=piece.topic,
        generation=piece.generation,
        after=piece.after if after is None else after,
        upto=piece.upto if upto is None else upto,
        rows=rows,
    )
