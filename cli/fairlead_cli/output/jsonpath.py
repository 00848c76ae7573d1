"""JSONPath templates as kubectl reads them: text, and in braces what is taken from a document.

    '{.items[*].metadata.name}'   '{range .items[*]}{.metadata.name}{"\\t"}{.status.state}{"\\n"}{end}'
    '{.items[?(@.status.state=="Parked")].spec.objectName}'   '{.metadata.labels.fairlead\\.dev/node}'   '{..name}'

A path that leads nowhere gives nothing, as with `kubectl get`; a template that cannot be read is a ``TemplateMistake``.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

TEMPLATE_CHARS_MAX = 16_384
RANGES_MAX = 16
"""Maximum nesting depth."""

_FIELD = re.compile(r"\.((?:[^.\[\]\s()=!<>{}\\]|\\.)+)")
_INDEX = re.compile(r"\[(-?\d+)\]")
_SLICE = re.compile(r"\[(-?\d*):(-?\d*)\]")
_QUOTED = re.compile(r"""\[((?:\s*(?:'[^']*'|"[^"]*")\s*,?)+)\]""")
_NAME = re.compile(r"""'([^']*)'|"([^"]*)\"""")
_DOT = re.compile(r"(?<!\\)\.")
_FILTER = re.compile(r"\[\?\((.*?)\)\]", re.DOTALL)
_COMPARED = re.compile(r"\s*(@[^=!<>]*?)\s*(==|!=|<=|>=|<|>)\s*(.+?)\s*", re.DOTALL)
_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

_NOTHING = object()

Step = Callable[[Any], Iterable[Any]]


class TemplateMistake(ValueError):
    """The template is invalid; the text says where."""


@dataclass(frozen=True, slots=True)
class _Path:
    steps: tuple[Step, ...]
    from_root: bool

    def values(self, root: Any, here: Any) -> list[Any]:
        found = [root if self.from_root else here]
        for step in self.steps:
            found = [value for each in found for value in step(each)]
        return found


@dataclass(frozen=True, slots=True)
class _Range:
    path: _Path
    body: tuple[_Part, ...]


_Part = str | _Path | _Range


@dataclass(frozen=True, slots=True)
class JsonPathTemplate:
    """A parsed template; see ``parse``."""

    parts: tuple[_Part, ...]

    def applied(self, document: Any) -> str:
        """The text of the template filled in from a document."""
        return "".join(_applied(self.parts, document, document))


def parse(text: str) -> JsonPathTemplate:
    """Without braces the whole text is one path. Raises ``TemplateMistake``."""
    if len(text) > TEMPLATE_CHARS_MAX:
        raise TemplateMistake(f"longer than {TEMPLATE_CHARS_MAX} characters")
    whole = text if "{" in text else "{" + (text if text[:1] in (".", "[", "$", "@") else f".{text}") + "}"
    stack: list[tuple[_Path, list[_Part]]] = [(_Path((), False), [])]
    for is_text, piece in _pieces(whole):
        if is_text:
            stack[-1][1].append(piece)
            continue
        word = piece.strip()
        if word == "end":
            if len(stack) == 1:
                raise TemplateMistake("{end} without {range}")
            path, body = stack.pop()
            stack[-1][1].append(_Range(path, tuple(body)))
        elif word.startswith("range ") or word.startswith("range\t"):
            if len(stack) > RANGES_MAX:
                raise TemplateMistake(f"more than {RANGES_MAX} {{range}} one inside of another")
            stack.append((_path(word[6:].strip()), []))
        elif word[:1] in ('"', "'"):
            stack[-1][1].append(_literal(word))
        else:
            stack[-1][1].append(_path(word))
    if len(stack) > 1:
        raise TemplateMistake("{range} without {end}")
    return JsonPathTemplate(tuple(stack[0][1]))


def _pieces(text: str) -> Iterator[tuple[bool, str]]:
    """Split into text and the contents of braces; braces inside quotes do not count."""
    at = 0
    while at < len(text):
        begin = text.find("{", at)
        if begin < 0:
            yield True, text[at:]
            return
        if begin > at:
            yield True, text[at:begin]
        end, quote = begin + 1, ""
        while end < len(text) and (quote or text[end] != "}"):
            if text[end] == "\\":
                end += 1
            elif quote:
                quote = "" if text[end] == quote else quote
            elif text[end] in "\"'":
                quote = text[end]
            end += 1
        if end >= len(text):
            raise TemplateMistake(f"{{ at character {begin + 1} is not closed")
        yield False, text[begin + 1 : end]
        at = end + 1


def _literal(word: str) -> str:
    inner = word[1:-1]
    if len(word) < 2 or word[-1] != word[0]:
        raise TemplateMistake(f"{word}: a text must end with {word[0]}")
    try:
        return str(json.loads('"' + inner.replace('"', '\\"') + '"')) if word[0] == "'" else str(json.loads(word))
    except ValueError:
        raise TemplateMistake(f"{word}: not a text") from None


def _path(word: str) -> _Path:
    rest = word
    from_root = rest.startswith("$")
    if rest[:1] in ("$", "@"):
        rest = rest[1:]
    steps: list[Step] = []
    while rest:
        step, rest = _step(rest, word)
        steps.append(step)
    return _Path(tuple(steps), from_root)


def _step(rest: str, whole: str) -> tuple[Step, str]:
    if rest.startswith(".."):
        return _deep, rest[1:] if rest[2:3] not in ("[", "") else rest[2:]
    if rest.startswith(".*"):
        return _every, rest[2:]
    if rest.startswith("[*]"):
        return _every, rest[3:]
    if rest == ".":
        return _itself, ""
    if rest.startswith(".["):
        return _itself, rest[1:]
    if match := _FIELD.match(rest):
        return _fields(((_unescaped(match[1]),),)), rest[match.end() :]
    if match := _INDEX.match(rest):
        return _index(int(match[1])), rest[match.end() :]
    if match := _SLICE.match(rest):
        begin, end = (int(each) if each else None for each in match.groups())
        return _slice(begin, end), rest[match.end() :]
    if match := _FILTER.match(rest):
        return _filter(match[1]), rest[match.end() :]
    if match := _QUOTED.match(rest):
        return _fields(tuple(_names(one or other) for one, other in _NAME.findall(match[1]))), rest[match.end() :]
    raise TemplateMistake(f"{whole}: cannot be read from {rest[:40]!r} on")


def _itself(value: Any) -> Iterable[Any]:
    return (value,)


def _every(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _deep(value: Any) -> Iterator[Any]:
    waiting = [value]
    while waiting:
        one = waiting.pop()
        yield one
        waiting.extend(reversed(list(_every(one))))


def _names(quoted: str) -> tuple[str, ...]:
    """A dot inside quotes still separates names unless it is escaped, as in kubectl."""
    return tuple(_unescaped(each) for each in _DOT.split(quoted))


def _unescaped(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name)


def _fields(paths: tuple[tuple[str, ...], ...]) -> Step:
    def step(value: Any) -> Iterable[Any]:
        for path in paths:
            found = value
            for name in path:
                found = found.get(name, _NOTHING) if isinstance(found, dict) else _NOTHING
            if found is not _NOTHING:
                yield found

    return step


def _index(at: int) -> Step:
    def step(value: Any) -> Iterable[Any]:
        return (value[at],) if isinstance(value, list) and -len(value) <= at < len(value) else ()

    return step


def _slice(begin: int | None, end: int | None) -> Step:
    return lambda value: value[begin:end] if isinstance(value, list) else ()


def _filter(text: str) -> Step:
    compared = _COMPARED.fullmatch(text)
    if compared is None:
        path = _path(text.strip())
        return lambda value: [each for each in _every(value) if path.values(each, each)]
    left, compare = _path(compared[1]), _COMPARE[compared[2]]
    right = _right(compared[3])

    def holds(each: Any) -> bool:
        try:
            return any(compare(value, right) for value in left.values(each, each))
        except TypeError:  # a text and a number have no order
            return False

    return lambda value: [each for each in _every(value) if holds(each)]


def _right(word: str) -> Any:
    if word[:1] in ('"', "'"):
        return _literal(word)
    try:
        return json.loads(word)
    except ValueError:
        raise TemplateMistake(f"{word}: neither a text in quotes nor a number, true or false") from None


def _applied(parts: Iterable[_Part], root: Any, here: Any) -> Iterator[str]:
    for part in parts:
        if isinstance(part, str):
            yield part
        elif isinstance(part, _Range):
            for each in part.path.values(root, here):
                yield from _applied(part.body, root, each)
        else:
            yield " ".join(_shown(value) for value in part.values(root, here))


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
