"""Mistakes in a route or condition, with their exact positions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class CompileError:
    """One mistake. Lines and columns count from 1; the end is exclusive, at most one past the end of the line + 1."""

    line: int
    column: int
    end_column: int
    message: str
    follows: bool = False
    """It only follows from another mistake. A condition alone reports it, as the original does; a route does not."""

    def as_json(self) -> dict[str, Any]:
        """The form in HTTP responses."""
        return {"message": self.message, "line": self.line, "column": self.column, "endColumn": self.end_column}


class Invalid(ValueError):
    """The text does not compile; `errors` holds every mistake that was found, at least one."""

    def __init__(self, errors: list[CompileError]) -> None:
        super().__init__("; ".join(f"{error.line}:{error.column}: {error.message}" for error in errors))
        self.errors = tuple(errors)


def error_at(text: str, start: int, end: int, message: str) -> CompileError:
    """The error for `text[start:end]`; a range over several lines is cut at the end of its first one."""
    line_start = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", start)
    # A carriage return ends a line only together with a line feed; alone it is a character like others.
    line = text[line_start:] if line_end < 0 else text[line_start:line_end].removesuffix("\r")
    column = start - line_start + 1
    return CompileError(
        line=text.count("\n", 0, start) + 1,
        column=column,
        end_column=min(column + end - start, len(line) + 2),
        message=message,
    )


def caret(text: str, error: CompileError) -> str:
    """The line with the error, and below it a line with carets that mark the place."""
    line = text.split("\n")[error.line - 1].removesuffix("\r")
    before = line[: error.column - 1]
    padding = "".join("\t" if char == "\t" else " " for char in before)
    return f"{line}\n{padding}{'^' * max(1, error.end_column - error.column)}"
