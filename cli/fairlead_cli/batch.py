"""Batch commands: one JSON object per line in, one answer per line out, in the same order.

They are made for pipes: each line is answered before the next is read, a bad line is answered with an error and does
not affect the next, and no line uses more memory than the limit.  The command exits with 1 if a line could not be read.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, BinaryIO

import click
import msgspec

LINE_BYTES_MAX = 4 * 1024 * 1024
"""Longest line, including its newline: room for a message of 256 KiB and a manifest, both quoted."""


class BadBatchLine(ValueError):
    """The line is not a valid request; the text says why."""


class UnreadableLine(BadBatchLine):
    """The line is not a JSON object: most often it is a part of one that was written over several lines."""


def answer_lines(
    answer: Callable[[dict[str, Any]], dict[str, Any]], decode: Callable[[bytes], Any] = msgspec.json.decode
) -> None:
    """Answer standard input line by line on standard output.

    `answer` may raise `BadBatchLine`, `decode` may raise `ValueError`.  Exits with 1 after the last line if one of them
    could not be read; a mistake in what a line asks (a condition, a manifest) is an answer.
    """
    source, target = sys.stdin.buffer, sys.stdout.buffer
    is_good = True
    try:
        while line := _read_line(source):
            if not line.isspace():
                try:
                    answered = _answer(answer, decode, line)
                except BadBatchLine as reason:
                    is_good &= not isinstance(reason, UnreadableLine)
                    answered = error(str(reason))
                target.write(msgspec.json.encode(answered) + b"\n")
                target.flush()
    except BrokenPipeError:
        # The reader ended (`| head`), which is not an error. Standard output is redirected so that the interpreter's
        # flush at exit does not fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), target.fileno())
        return
    if not is_good:
        sys.exit(1)


def error(message: str) -> dict[str, Any]:
    """The answer to an unusable line: the same shape as a compile error, without a position."""
    return {"error": [{"message": message}]}


def reject_terminal(example: str) -> None:
    """At a terminal, show an example instead of waiting for input."""
    if sys.stdin.isatty():
        raise click.UsageError(
            f"reads JSON from standard input, one object per line, for example:\n  echo '{example}' | ..."
        )


def _read_line(source: BinaryIO) -> bytes:
    """The next line, truncated to one byte more than the limit; the rest of a longer line is skipped."""
    line = source.readline(LINE_BYTES_MAX + 1)
    rest = line
    while len(line) > LINE_BYTES_MAX and rest and not rest.endswith(b"\n"):
        rest = source.readline(LINE_BYTES_MAX)
    return line


def _answer(
    answer: Callable[[dict[str, Any]], dict[str, Any]], decode: Callable[[bytes], Any], line: bytes
) -> dict[str, Any]:
    if len(line) > LINE_BYTES_MAX:
        raise UnreadableLine(f"the line is longer than {LINE_BYTES_MAX} bytes")
    try:
        request = decode(line)
    except ValueError as reason:
        raise UnreadableLine(f"not JSON: {reason}; write one JSON object per line") from None
    except RecursionError:
        raise UnreadableLine("not usable: nested too deeply") from None
    if not isinstance(request, dict):
        raise UnreadableLine("expected one JSON object per line")
    return answer(request)
