"""Which job a command is about, and how it says what goes wrong."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from fairlead_cli.commands.ingest import job_options
from fairlead_wire.errors import LocalError


def test_a_pipeline_is_found_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "ingest.toml"
    path.write_text(
        'messaging_url = "http://127.0.0.1:9"\nsecurity = "insecure"\n'
        '[[pipelines]]\nname = "p"\ntopics = ["a/t"]\ntable = "/t/rows"\ncheckpoint = "/t/c"\n'
    )
    assert [job.name for job in job_options.load(path, None)[1]] == ["p"]
    with pytest.raises(click.UsageError, match="there is p"):
        job_options.load(path, "q")
    path.write_text("tabel = 1")
    with pytest.raises(SystemExit) as refused:
        job_options.load(path, None)
    assert refused.value.code == 2


def test_a_refusal_is_a_message_and_an_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    for raised, context, code in (
        (LocalError("no file"), job_options.explained(), 1),
        (OSError(5, "broken"), job_options.explained(), 1),
        (LocalError("no file"), job_options.used(2), 2),
    ):
        with pytest.raises(SystemExit) as refused, context:
            raise raised
        assert refused.value.code == code
    assert capsys.readouterr().err.count("fairlead ingest: ") == 3
