"""Reads the job's settings (`--config`, `--pipeline`) for `fairlead ingest` commands, and reports their errors."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from fairlead_ingest.settings import IngestSettings, Pipeline

EXIT_FAILED = 1


def load(config: Path | None, pipeline: str | None) -> tuple[IngestSettings, list[Pipeline]]:
    """The settings and the selected pipelines; mistakes end the program with 2."""
    from fairlead_ingest.settings import IngestSettings
    from fairlead_wire.io import settings as settings_file

    try:
        settings = settings_file.load("ingest", IngestSettings, config, os.environ)
    except settings_file.SettingsError as error:
        raise SystemExit(settings_file.complain("ingest", error)) from None
    jobs = [job for job in settings.jobs() if pipeline in (None, job.name)]
    if not jobs:
        names = ", ".join(job.name for job in settings.jobs())
        raise click.UsageError(f"no pipeline {pipeline!r}; there is {names}")
    return settings, jobs


@contextmanager
def explained() -> Iterator[None]:
    """Turn errors of tables, stores and the service into a sentence and exit code 1."""
    import pyarrow as pa
    from deltalake.exceptions import DeltaError

    from fairlead_ingest.errors import explain
    from fairlead_wire.errors import FairleadError, text_of

    try:
        yield
    except FairleadError as error:
        complain(str(error))
        raise SystemExit(EXIT_FAILED) from None
    except (OSError, DeltaError, pa.ArrowInvalid) as error:  # ArrowInvalid: a damaged Parquet file
        complain(explain(text_of(error))[1])
        raise SystemExit(EXIT_FAILED) from None


def complain(text: str) -> None:
    """Print an error, which has several lines if several pipelines are wrong."""
    for line in text.splitlines():
        click.echo(f"fairlead ingest: {line}", err=True)


def in_turn(jobs: Sequence[Pipeline], work: Callable[[Pipeline], None]) -> None:
    """Call `work` for each job; failures are reported, the other jobs still run, and the program ends with 1."""
    failed = False
    for job in jobs:
        try:
            with explained():
                work(job)
        except SystemExit:
            failed = True
    if failed:
        raise SystemExit(EXIT_FAILED)


@contextmanager
def used(code: int) -> Iterator[None]:
    """Turn errors into a sentence and this exit code."""
    from fairlead_wire.errors import FairleadError

    try:
        yield
    except FairleadError as error:
        complain(str(error))
        raise SystemExit(code) from None
