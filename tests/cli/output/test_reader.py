"""Whether standard output is still read."""

from __future__ import annotations

import os

import pytest

from fairlead_cli.output import printer


def test_a_pipe_without_its_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """True while the other end is open, False after it was closed."""
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stream:
        monkeypatch.setattr("sys.stdout", stream)
        assert printer.has_reader()
        os.close(reading)
        assert not printer.has_reader()


def test_what_cannot_be_watched_is_taken_for_read() -> None:
    """Tests and notebooks replace standard output by an object without a file."""
    assert printer.has_reader()
