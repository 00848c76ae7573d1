"""Batch forms: one answer a line, whatever the line is."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from fairlead_cli import batch


def run(monkeypatch: pytest.MonkeyPatch, text: bytes) -> list[Any]:
    """What an echoing form answers to these bytes."""
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text)))
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=out))
    with contextlib.suppress(SystemExit):
        batch.answer_lines(lambda request: {"got": request})
    return [msgspec.json.decode(line) for line in out.getvalue().splitlines()]


def test_answers_come_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also without a newline at the end; blank lines are no requests."""
    assert run(monkeypatch, b'{"n": 1}\n\n{"n": 2}\r\n{"n": 3}') == [{"got": {"n": n}} for n in (1, 2, 3)]


@pytest.mark.parametrize("line", [b"{", b"[1]", b"null", b'"text"', b"\xff\xfe", b"[" * 100_000, b'{"a":"\\ud800"}'])
def test_a_bad_line_is_answered_and_the_next_one_read(monkeypatch: pytest.MonkeyPatch, line: bytes) -> None:
    first, second = run(monkeypatch, line + b'\n{"n": 1}\n')
    assert list(first) == ["error"] and first["error"][0]["message"]
    assert second == {"got": {"n": 1}}


def test_a_line_over_the_limit_is_skipped_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its length is all we keep of it; the next line is the next request."""
    monkeypatch.setattr(batch, "LINE_BYTES_MAX", 100)
    for size in (99, 100, 101, 199, 200, 201, 1000):
        long = b'"' + b"x" * (size - 2) + b'"'
        first, second = run(monkeypatch, long + b'\n{"n": 1}\n')
        assert ("longer than 100" in first["error"][0]["message"]) == (size >= 100)
        assert second == {"got": {"n": 1}}


@pytest.mark.process
def test_a_reader_that_goes_away_is_no_failure() -> None:
    """`fairlead backoff schedule | head -1` ends quietly with exit 0."""
    code = "from fairlead_cli import main; main.main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "backoff", "schedule"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin and process.stdout and process.stderr
    process.stdout.close()
    process.stdin.write(b"{}\n" * 100)
    process.stdin.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=120) == 0
