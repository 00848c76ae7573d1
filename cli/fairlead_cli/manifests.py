"""Checks the manifests in a file, and reports each finding with its position.

file ─read_documents→ LocatedDocument (the value, and where each path of keys begins) ─read→ PlacedManifest
     ─check→ names of valid routes, findings ─shown→ file:line:col: message, and carets

The route language is imported when a manifest is checked; reading documents needs no other package.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from fairlead_cli.text import printable
from fairlead_wire.validation import mistakes, route_manifest

if TYPE_CHECKING:
    from fairlead_edge.outbox.manifest import RouteProblem
    from fairlead_edge.routes.errors import CompileError

KeyPath = tuple[str, ...]

_SPACE = re.compile(r"[ \t\r\n]*")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_SCALAR = re.compile(r"[^,\]}\s]+")
_JSON_CHAR = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|.", re.DOTALL
)
KIND = "EdgeRoutes"
GROUP = "fairlead.dev"
KIND_NEAR = 0.85
"""How similar a kind must be to EdgeRoutes to be taken for it (difflib's ratio); EdgeNode is not."""
KIND_CHARS_MAX = 64


class ManifestFinding(msgspec.Struct, frozen=True, kw_only=True, rename={"end_column": "endColumn"}):
    """Lines and columns count from 1, the end is exclusive; `name` is the route's, empty for the whole manifest."""

    severity: Literal["error", "warning"] = "error"
    line: int
    column: int
    end_column: int
    name: str = ""
    message: str

    def shown(self, file: str, text: str) -> str:
        """FILE:LINE:COL: MESSAGE, the line, and carets below the position."""
        lines = text.split("\n")
        line = lines[self.line - 1].removesuffix("\r") if self.line <= len(lines) else ""
        padding = "".join("\t" if char == "\t" else " " for char in line[: self.column - 1])
        label = "" if self.severity == "error" else f"{self.severity}: "
        carets = "^" * (self.end_column - self.column)
        head = printable.one_line(f"{file}:{self.line}:{self.column}: {label}{self.message}")
        # One character for each, so that the carets stand below their place.
        line = "".join(each if each.isprintable() or each == "\t" else "\ufffd" for each in line)
        return f"{head}\n    {line}\n    {padding}{carets}"


@dataclass(frozen=True)
class PlacedManifest:
    """A manifest, or the object that contains it, at `path` of its document."""

    document: LocatedDocument
    path: KeyPath
    value: dict[str, Any]

    @property
    def name(self) -> str:
        """The EdgeRoutes object's name; empty for a bare manifest."""
        metadata = self.value.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        return name if isinstance(name, str) else ""


def read(text: str) -> list[PlacedManifest]:
    """The manifests in JSON or YAML text: bare, in objects, in a list of objects; other objects are passed over.

    Raises `source_locations.NotReadable`.
    """
    return [each for each in _all_objects(text) if each.value.get("kind", KIND) == KIND]


def misspelled(text: str) -> list[ManifestFinding]:
    """The objects in the text whose kind is nearly EdgeRoutes, which ``read`` passes over."""
    found = []
    for each in _all_objects(text):
        kind, version = each.value.get("kind"), each.value.get("apiVersion", GROUP)
        if not isinstance(kind, str) or kind == KIND or not str(version).startswith(GROUP):
            continue
        if difflib.get_close_matches(kind.lower()[:KIND_CHARS_MAX], [KIND.lower()], cutoff=KIND_NEAR):
            line, column = each.document.place((*each.path, "kind"))
            said = f"kind {kind}; did you mean {KIND}?"
            found.append(ManifestFinding(line=line, column=column, end_column=column + len(kind), message=said))
    return found


def _all_objects(text: str) -> Iterator[PlacedManifest]:
    for document in read_documents(text):
        for path, value in _objects(document.value):
            if isinstance(value, dict):
                yield PlacedManifest(document, path, value)


def _objects(value: Any) -> Iterator[tuple[KeyPath, Any]]:
    """The value, or the items of a Kubernetes list."""
    if isinstance(value, dict) and isinstance(value.get("items"), list) and str(value.get("kind")).endswith("List"):
        yield from ((("items", str(index)), item) for index, item in enumerate(value["items"]))
    else:
        yield (), value


def check_text(text: str) -> tuple[list[str], list[ManifestFinding]]:
    """``check`` of all manifests in a text; text that holds none is a mistake at the place that shows it.

    Raises ``NoYamlPackage``.
    """
    names: list[str] = []
    findings: list[ManifestFinding] = []
    try:
        all_placed = read(text)
    except NoYamlPackage:
        raise
    except NotReadable as reason:
        column = reason.column
        return names, [ManifestFinding(line=reason.line, column=column, end_column=column + 1, message=str(reason))]
    findings += misspelled(text)
    if not all_placed and not findings:
        return names, [ManifestFinding(line=1, column=1, end_column=2, message="holds no route manifest")]
    for placed in all_placed:
        good, found = check(placed)
        names += good
        findings += found
    return names, findings


def check(placed: PlacedManifest) -> tuple[list[str], list[ManifestFinding]]:
    """The names of the valid routes, and the findings in the order of the file."""
    checker = _Checker(placed)
    names = checker.check()
    return names, sorted(checker.findings, key=lambda finding: (finding.line, finding.column))


class _Checker:
    def __init__(self, placed: PlacedManifest) -> None:
        self.placed = placed
        self.document = placed.document
        from fairlead_edge.outbox.manifest import unwrap

        inner, wrapping = unwrap(placed.value)
        self.manifest: Mapping[str, Any] = inner
        self.path = (*placed.path, *wrapping)
        self.findings: list[ManifestFinding] = []

    def check(self) -> list[str]:
        from fairlead_edge.outbox.manifest import ManifestError, parse

        for path in self.document.repeated:
            if path[: len(self.path)] == self.path:
                in_routes = path[:-1] == (*self.path, "routes") and isinstance(self.manifest.get("routes"), dict)
                is_object = in_routes and isinstance(self.manifest["routes"].get(path[-1]), dict)
                which = "the one in the object form" if is_object else "the last one"
                self.at(path, f"{path[-1]} is given twice; {which} counts", severity="warning")
        self.unknown_fields()
        try:
            manifest = parse(self.placed.value)
        except ManifestError as refused:
            for each in refused.mistakes:
                self.at((*self.path, *each.key.split(".")), str(each))
            for bad in refused.routes:
                self.mistake(bad)
            return []
        version = str(self.manifest.get("schemaVersion"))
        if self.path[-1:] == ("spec",) and not re.fullmatch(route_manifest.OBJECT_VERSION, version):
            # The agent would run it, and never gets it: the API server refuses it.
            said = f"schemaVersion: {version} is not for EdgeRoutes objects; {route_manifest.VERSIONS}"
            self.at((*self.path, "schemaVersion"), said)
        for bad in manifest.quarantined:
            self.mistake(bad)
        for odd in manifest.warnings:
            self.mistake(odd, severity="error" if odd in manifest.odd_names else "warning")
        return [route.name for route in manifest.routes]

    def unknown_fields(self) -> None:
        """Fields of an EdgeRoutes object that the API server refuses; a manifest in a file may have others."""
        if self.path[-1:] != ("spec",):
            return
        for path, known in (((), route_manifest.SPEC_KEYS), (("nodeSelector",), route_manifest.SELECTOR_KEYS)):
            fields = self.manifest[path[0]] if path and path[0] in self.manifest else () if path else self.manifest
            for key in fields if isinstance(fields, Mapping) else ():
                if key not in known:
                    meant = mistakes.nearest(str(key), known)
                    hint = f"; did you mean {meant}?" if meant else f"; known are {', '.join(known)}"
                    self.on_key((*self.path, *path, str(key)), f"unknown field {'.'.join((*path, str(key)))}{hint}")

    def mistake(self, bad: RouteProblem, severity: Literal["error", "warning"] = "error") -> None:
        """A position in the route's text if there is one, otherwise its field."""
        from fairlead_edge.routes.errors import CompileError

        if bad.line is not None and bad.column is not None and bad.end_column is not None:
            error = CompileError(line=bad.line, column=bad.column, end_column=bad.end_column, message=bad.message)
            self.inside(bad.name, error, severity)
        else:
            path = (*self.path, "routes", bad.name, *([bad.key] if bad.key else ()))
            outside = (*self.path, bad.name, bad.key)  # storeAndForwardConfiguration has keys, too
            place = outside if path not in self.document.spans and outside in self.document.spans else path
            at = self.on_key if bad.key not in route_manifest.ROUTE_KEYS else self.at
            at(place, bad.message, name=bad.name, severity=severity)

    def at(
        self, path: KeyPath, message: str, *, name: str = "", severity: Literal["error", "warning"] = "error"
    ) -> None:
        line, column = self.document.place(path)
        self.add(severity, line, column, column + 1, name, message)

    def on_key(
        self, path: KeyPath, message: str, *, name: str = "", severity: Literal["error", "warning"] = "error"
    ) -> None:
        """The same, below the key: it is the mistake, not its value."""
        if path not in self.document.keys:
            self.at(path, message, name=name, severity=severity)
            return
        line, column, end = self.document.place_of_key(path)
        self.add(severity, line, column, end, name, message)

    def inside(self, name: str, error: CompileError, severity: Literal["error", "warning"] = "error") -> None:
        """A position in a route's text, converted to a position in the file."""
        value = self.manifest["routes"][name]
        path = (*self.path, "routes", name)
        text = value
        if not isinstance(value, str):
            path, text = (*path, "route"), value["route"]
        line, column = self.document.place_inside(path, text, error.line, error.column)
        last_line, last_column = self.document.place_inside(path, text, error.line, error.end_column - 1)
        end_column = max(last_column, column) + 1 if last_line == line else column + 1
        self.add(severity, line, column, end_column, name, error.message)

    def add(
        self, severity: Literal["error", "warning"], line: int, column: int, end: int, name: str, message: str
    ) -> None:
        text = f"{name}: {message}" if name else message
        self.findings.append(
            ManifestFinding(severity=severity, line=line, column=column, end_column=end, name=name, message=text)
        )


# ── places in the file ────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class LocatedDocument:
    """A decoded document. `spans` maps each path of keys to the range of characters of its value in the file, and
    `keys` to that of its last key."""

    text: str
    value: Any
    json: bool
    spans: dict[KeyPath, tuple[int, int]] = field(default_factory=dict)
    keys: dict[KeyPath, tuple[int, int]] = field(default_factory=dict)
    repeated: list[KeyPath] = field(default_factory=list)

    def place(self, path: KeyPath) -> tuple[int, int]:
        """Line and column, from 1, where the value (or the nearest enclosing one that exists) begins."""
        while path not in self.spans and path:
            path = path[:-1]
        return self._line_and_column(self.spans.get(path, (0, 0))[0])

    def place_of_key(self, path: KeyPath) -> tuple[int, int, int]:
        """Line, column, and the column after it, of a key in ``keys``."""
        start, end = self.keys[path]
        line, column = self._line_and_column(start)
        return line, column, column + min(end, (self.text + "\n").index("\n", start)) - start

    def place_inside(self, path: KeyPath, value: str, line: int, column: int) -> tuple[int, int]:
        """Line and column in the file of that line and column of the text `value`, which stands at `path`."""
        if path not in self.spans:
            return self.place(path)
        index = sum(len(each) + 1 for each in value.split("\n")[: line - 1]) + column - 1
        offsets = list(self._offsets(path, value))
        start, end = self.spans[path]
        if index < len(offsets):
            return self._line_and_column(offsets[index])
        return self._line_and_column(offsets[-1] + 1 if offsets else min(start + 1, end))

    def _line_and_column(self, offset: int) -> tuple[int, int]:
        return self.text.count("\n", 0, offset) + 1, offset - self.text.rfind("\n", 0, offset)

    def _offsets(self, path: KeyPath, value: str) -> Iterator[int]:
        """The position in the file of each character of the value."""
        start, end = self.spans[path]
        if self.json:
            for found in _JSON_CHAR.finditer(self.text, start + 1, end - 1):
                yield found.start()
            return
        position = start
        # YAML folds lines and doubles quotes: follow both texts, skipping in the file what the value does not have.
        for char in value:
            while (
                position < end
                and self.text[position] != char
                and not (char.isspace() and self.text[position].isspace())
            ):
                position += 1
            yield min(position, end)
            position += 1
            while char.isspace() and position < end and self.text[position].isspace():
                position += 1


class NotReadable(ValueError):
    """The file is neither JSON nor YAML; `line` and `column` locate the error."""

    def __init__(self, message: str, line: int = 1, column: int = 1) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


class NoYamlPackage(NotReadable):
    """The file may be valid YAML, but the package that reads it is not installed."""

    def __init__(self) -> None:
        super().__init__("YAML needs the package pyyaml; install it with: pip install pyyaml")


def read_documents(text: str) -> list[LocatedDocument]:
    """One JSON document, or every document of a YAML file.  Raises `NotReadable`."""
    if text.lstrip()[:1] in ("{", "["):
        try:
            return [_json(text)]
        except json.JSONDecodeError as error:
            raise NotReadable(f"not JSON: {error.msg}", error.lineno, error.colno) from None
        except RecursionError:
            raise NotReadable("nested too deeply") from None
    return _yaml(text)


def _json(text: str) -> LocatedDocument:
    from fairlead_edge.outbox.manifest import joined

    document = LocatedDocument(text, json.loads(text, object_pairs_hook=joined), json=True)
    spans = _JsonSpans(document)
    spans.value((), spans.skip(0))
    return document


class _JsonSpans:
    """Walks valid JSON and notes where values begin and end."""

    def __init__(self, document: LocatedDocument) -> None:
        self.text = document.text
        self.document = document

    def skip(self, position: int) -> int:
        found = _SPACE.match(self.text, position)
        return found.end() if found else position

    def value(self, path: KeyPath, start: int) -> int:
        opening = self.text[start]
        if opening == "{":
            end = self.members(path, start)
        elif opening == "[":
            end = self.elements(path, start)
        else:
            found = (_STRING if opening == '"' else _SCALAR).match(self.text, start)
            end = found.end() if found else start + 1
        self.document.spans[path] = (start, end)
        return end

    def members(self, path: KeyPath, position: int) -> int:
        position = self.skip(position + 1)
        while self.text[position] != "}":
            key = _STRING.match(self.text, position)
            assert key is not None
            inner = (*path, json.loads(key[0]))
            self.document.keys[inner] = key.span()
            before = self.document.spans.get(inner)
            if before is not None:
                self.document.repeated.append(inner)
            start = position = self.skip(self.skip(key.end()) + 1)
            position = self.skip(self.value(inner, position))
            if before is not None and self.text[before[0]] == "{" != self.text[start]:
                self.document.spans[inner] = before  # an object counts (``manifest_json``), else the last
            position = self.skip(position + 1) if self.text[position] == "," else position
        return position + 1

    def elements(self, path: KeyPath, position: int) -> int:
        position, index = self.skip(position + 1), 0
        while self.text[position] != "]":
            position = self.skip(self.value((*path, str(index)), position))
            position, index = self.skip(position + 1) if self.text[position] == "," else position, index + 1
        return position + 1


def _yaml(text: str) -> list[LocatedDocument]:
    try:
        import yaml
    except ModuleNotFoundError:
        raise NoYamlPackage from None
    place = (1, 1)
    documents = []
    try:
        for root in list(yaml.compose_all(text, Loader=yaml.SafeLoader)):
            place = (root.start_mark.line + 1, root.start_mark.column + 1)
            document = LocatedDocument(text, None, json=False)
            _yaml_spans(document, root, ())
            document.value = yaml.constructor.SafeConstructor().construct_document(root)
            if document.value is not None:
                documents.append(document)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or "not readable"
        raise NotReadable(f"not YAML: {problem}", *((mark.line + 1, mark.column + 1) if mark else (1, 1))) from None
    except RecursionError:  # also of an alias that names what it is in
        raise NotReadable("nested too deeply", *place) from None
    return documents


def _yaml_spans(document: LocatedDocument, node: Any, path: KeyPath) -> None:
    document.spans[path] = (node.start_mark.index, node.end_mark.index)
    if node.id == "mapping":
        objects, dropped = set(), []
        for key, value in node.value:
            inner = (*path, str(key.value))
            document.keys[inner] = (key.start_mark.index, key.end_mark.index)
            if inner in document.spans:
                document.repeated.append(inner)
            if value.id == "mapping":
                objects.add(inner)
            elif inner in objects:
                dropped.append((key, value))  # an object counts (``manifest_json``), else the last
                continue
            _yaml_spans(document, value, inner)
        node.value = [each for each in node.value if each not in dropped]
    elif node.id == "sequence":
        for index, value in enumerate(node.value):
            _yaml_spans(document, value, (*path, str(index)))
