"""Splits text into tokens: the longest match wins, and many operator characters may be part of a name.

A name may have every character except `( ) < > @ , ; : \\ " / [ ] ? = { }` and white space.  So `a-b`, `a*2` and `a||b`
are names, and operators other than `= < > <= >= <> !=` and `/` need blanks around them.  One quirk of the original is
not copied: there `unit!='x'` compares a property called `unit!`; here `!` before `=` is part of the operator.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

NAME: Final = "name"
PATH: Final = "path"
SYSTEM: Final = "system property"
STRING: Final = "string"
UNTERMINATED: Final = "unterminated string"
NUMBER: Final = "number"
SEGMENT: Final = "segment"
UNKNOWN: Final = "unknown"
END: Final = "end"

BODY_PREFIX: Final = "$body."
KEYWORDS: Final = frozenset({"SELECT", "FROM", "WHERE", "INTO", "AND", "OR", "NOT"})
LITERALS: Final = frozenset({"true", "false", "null", "undefined"})
"""Lower case only: `TRUE` is a property."""
NAMELIKE_OPERATORS: Final = frozenset({"+", "-", "*", "%", "||"})

_SPACE = re.compile(r"[ \t\r\n]*")
_NAME = re.compile(r'[^()<>@,;:\\"/\[\]?={} \t\r\n]+')
_PATH = re.compile(r'[^()<>@,;:\\"/?={} \t\r\n]+')
_NUMBER = re.compile(r"-?[0-9]+|0[xX][0-9a-fA-F]+|-?(?:[0-9]*\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)")
_ESCAPE = r"\\(?:[\"'\\]|u[0-9a-fA-F]{4})"
_UNTERMINATED = {
    '"': re.compile(rf'"(?:{_ESCAPE}|[^"\\])*'),
    "'": re.compile(rf"'(?:{_ESCAPE}|[^'\\])*"),
}
_OPERATOR = re.compile(r"<>|<=|>=|!=|\?\?|[()<>,/={}]")
_CANONICAL = {"<>": "!="}
_STAR_SEGMENT = re.compile(r"/\*(?=/|[ \t\r\n]*(?:\Z|/|(?:where|into)\b))", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Token:
    """`text[start:end]`; `kind` is one of the constants above, a keyword in capitals, or the operator itself."""

    kind: str
    text: str
    start: int
    end: int


def tokenize_condition(text: str) -> list[Token]:
    """The tokens of a condition standing alone; the last one is `END`."""
    return _Scanner(text).run()


def tokenize_route(text: str) -> list[Token]:
    """The tokens of a route: between FROM and WHERE or INTO, slashes and segments; elsewhere as in a condition."""
    return _Scanner(text).run(route=True)


class _Scanner:
    """One pass over the text; every character is read a bounded number of times."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.tokens: list[Token] = []
        self._comment_end = 0

    def run(self, *, route: bool = False) -> list[Token]:
        while True:
            self._skip()
            if self.position >= len(self.text):
                break
            self._token()
            if route and self.tokens[-1].kind == "FROM":
                self._source()
        self._add(END, len(self.text))
        return self.tokens

    def _add(self, kind: str, end: int) -> None:
        self.tokens.append(Token(kind, self.text[self.position : end], self.position, end))
        self.position = end

    def _skip(self) -> None:
        """White space and `/* comments */`."""
        while True:
            self._skip_space()
            end = self._end_of_comment() if self.text.startswith("/*", self.position) else -1
            if end < 0:
                return
            self.position = end

    def _skip_space(self) -> None:
        if found := _SPACE.match(self.text, self.position):
            self.position = found.end()

    def _end_of_comment(self) -> int:
        """Where the comment beginning here ends, or -1 if it is not closed and hence not a comment.

        The next closing mark is cached, so that many opening marks before one closing mark cost one search.
        """
        if 0 <= self._comment_end < self.position + 4:
            found = self.text.find("*/", self.position + 2)
            self._comment_end = -1 if found < 0 else found + 2
        return self._comment_end

    def _token(self) -> None:
        text, position = self.text, self.position
        char = text[position]
        name_end = self._word(_NAME)
        if char in _UNTERMINATED:
            kind, end = self._string(char)
            if end >= name_end:
                self._add(kind, end)
                return
        path_end = self._word(_PATH)
        if char == "$" and path_end > position + 1:
            self._add(SYSTEM, path_end)
        elif path_end > name_end:
            self._add(PATH, path_end)
        elif name_end > position:
            self._name(name_end)
        elif found := _OPERATOR.match(text, position):
            self._add(_CANONICAL.get(found[0], found[0]), found.end())
        else:
            self._add(UNKNOWN, position + 1)

    def _string(self, quote: str) -> tuple[str, int]:
        end = _end(_UNTERMINATED[quote], self.text, self.position)
        return (STRING, end + 1) if self.text.startswith(quote, end) else (UNTERMINATED, end)

    def _word(self, characters: re.Pattern[str]) -> int:
        """Where the run of these characters ends; an exclamation mark before `=` is not part of it."""
        end = _end(characters, self.text, self.position)
        return end - 1 if end > self.position and self.text.startswith("!=", end - 1) else end

    def _name(self, end: int) -> None:
        """Add a run of name characters: an operator, number, keyword or literal if it is exactly that, else a name."""
        text = self.text[self.position : end]
        if text in NAMELIKE_OPERATORS or text in LITERALS:
            kind = text
        elif _NUMBER.fullmatch(text):
            kind = NUMBER
        elif text.upper() in KEYWORDS:
            kind = text.upper()
        else:
            kind = NAME
        self._add(kind, end)

    def _source(self) -> None:
        """Slashes and segments after FROM. A segment glued to its slash may be any name, also a keyword or a number."""
        segments = 0
        while True:
            before = self.position
            self._skip_in_source(segments)
            if not self.text.startswith("/", self.position):
                return
            self._add("/", self.position + 1)
            slash_end = self.position
            end = _end(_NAME, self.text, slash_end)
            if end == slash_end:
                self._skip_space()
                end = _end(_NAME, self.text, self.position)
                if end == self.position or self.text[self.position : end].upper() in KEYWORDS:
                    return
            self._add(SEGMENT, end)
            segments += 1
            assert self.position > before

    def _skip_in_source(self, segments: int) -> None:
        """Like `_skip`, but `/*` may also be a starred segment.

        After a blank, it is a comment if it is closed and a segment was read before; without a blank, or first, it is a
        segment if WHERE, INTO, a slash or the end follows.
        """
        while True:
            before = self.position
            self._skip_space()
            apart = self.position > before and segments > 0
            if not self.text.startswith("/*", self.position):
                return
            end = self._end_of_comment()
            if end < 0 or (not apart and _STAR_SEGMENT.match(self.text, self.position)):
                return
            self.position = end


def _end(pattern: re.Pattern[str], text: str, position: int) -> int:
    found = pattern.match(text, position)
    return found.end() if found else position
