"""Batch forms: one JSON object a line in, one answer a line out, in the same order.

Made for pipes: a line is answered before the next is read, a line that is not a JSON object is answered with an error,
the next one is read as if nothing had happened, and no line takes more memory than the limit.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, BinaryIO

import click
import msgspec

LINE_BYTES_MAX = 4 * 1024 * 1024
"""Longest line read, its newline included: room for a message of 256 KiB and a manifest, both quoted."""


class BadBatchLine(ValueError):
    """The line is not what this form takes; the text says why."""


def answer_lines(
    answer: Callable[[dict[str, Any]], dict[str, Any]], decode: Callable[[bytes], Any] = msgspec.json.decode
) -> None:
    """Answer standard input line by line on standard output; `answer` may raise `BadLine`, `decode` `ValueError`."""
    source, target = sys.stdin.buffer, sys.stdout.buffer
    try:
        while line := _read_line(source):
            if not line.isspace():
                target.write(msgspec.json.encode(_answer(answer, decode, line)) + b"\n")
                target.flush()
    except BrokenPipeError:
        # The reader went away (`| head`): that is its right, not our failure. Standard output is pointed elsewhere so
        # that the interpreter's own flush at exit does not complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), target.fileno())


def error(message: str) -> dict[str, Any]:
    """The answer to a line that could not be used at all: the same shape as a compile error, without a position."""
    return {"error": [{"message": message}]}


def reject_terminal(example: str) -> None:
    """Someone who types the command alone would wait for ever: show what it wants."""
    if sys.stdin.isatty():
        raise click.UsageError(
            f"reads one JSON object a line from standard input, for example:\n  echo '{example}' | ..."
        )


def _read_line(source: BinaryIO) -> bytes:
    """The next line, cut at one byte beyond the limit; the rest of such a line is skipped."""
    line = source.readline(LINE_BYTES_MAX + 1)
    rest = line
    while len(line) > LINE_BYTES_MAX and rest and not rest.endswith(b"\n"):
        rest = source.readline(LINE_BYTES_MAX)
    return line


def _answer(
    answer: Callable[[dict[str, Any]], dict[str, Any]], decode: Callable[[bytes], Any], line: bytes
) -> dict[str, Any]:
    if len(line) > LINE_BYTES_MAX:
        return error(f"the line is longer than {LINE_BYTES_MAX} bytes")
    try:
        request = decode(line)
    except ValueError as reason:
        return error(f"not JSON: {reason}")
    except RecursionError:
        return error("not usable: nested too deeply")
    if not isinstance(request, dict):
        return error("expected one JSON object a line")
    try:
        return answer(request)
    except BadBatchLine as reason:
        return error(str(reason))
