"""What is wrong or odd with the manifests in a file, each with its place in that file.

text ─read→ Placed manifests ─check→ names of good routes, findings ─shown→ file:line:col: message, and carets
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from fairlead_cli.manifests.source_locations import KeyPath, LocatedDocument, NotReadable, NoYamlPackage, read_documents
from fairlead_cli.text import printable
from fairlead_edge.outbox.manifest import ManifestError, RouteProblem, parse, unwrap
from fairlead_edge.routes.errors import CompileError

KIND = "EdgeRoutes"


class ManifestFinding(msgspec.Struct, frozen=True, kw_only=True, rename={"end_column": "endColumn"}):
    """Lines and columns of the file, from 1, the end exclusive; `name` is the route's, empty for the whole manifest."""

    severity: Literal["error", "warning"] = "error"
    line: int
    column: int
    end_column: int
    name: str = ""
    message: str

    def shown(self, file: str, text: str) -> str:
        """FILE:LINE:COL: MESSAGE, the line, and carets below the place."""
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
    """A manifest, or the object it is in, at `path` of its document."""

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
    found: list[PlacedManifest] = []
    for document in read_documents(text):
        for path, value in _objects(document.value):
            if isinstance(value, dict) and value.get("kind", KIND) == KIND:
                found.append(PlacedManifest(document, path, value))
    return found


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
    if not all_placed:
        return names, [ManifestFinding(line=1, column=1, end_column=2, message="holds no route manifest")]
    for placed in all_placed:
        good, found = check(placed)
        names += good
        findings += found
    return names, findings


def check(placed: PlacedManifest) -> tuple[list[str], list[ManifestFinding]]:
    """The names of the good routes, and the findings in the order of the file."""
    checker = _Checker(placed)
    names = checker.check()
    return names, sorted(checker.findings, key=lambda finding: (finding.line, finding.column))


class _Checker:
    def __init__(self, placed: PlacedManifest) -> None:
        self.placed = placed
        self.document = placed.document
        inner, wrapping = unwrap(placed.value)
        self.manifest: Mapping[str, Any] = inner
        self.path = (*placed.path, *wrapping)
        self.findings: list[ManifestFinding] = []

    def check(self) -> list[str]:
        for path in self.document.repeated:
            if path[: len(self.path)] == self.path:
                in_routes = path[:-1] == (*self.path, "routes") and isinstance(self.manifest.get("routes"), dict)
                is_object = in_routes and isinstance(self.manifest["routes"].get(path[-1]), dict)
                which = "the one in the object form" if is_object else "the last one"
                self.at(path, f"{path[-1]} is given twice; {which} counts", severity="warning")
        try:
            manifest = parse(self.placed.value)
        except ManifestError as refused:
            for each in refused.mistakes:
                self.at((*self.path, *each.key.split(".")), str(each))
            for bad in refused.routes:
                self.mistake(bad)
            return []
        for bad in manifest.quarantined:
            self.mistake(bad)
        for odd in manifest.warnings:
            self.mistake(odd, severity="error" if odd in manifest.odd_names else "warning")
        return [route.name for route in manifest.routes]

    def mistake(self, bad: RouteProblem, severity: Literal["error", "warning"] = "error") -> None:
        """A place in the route's text when there is one, else its field."""
        if bad.line is not None and bad.column is not None and bad.end_column is not None:
            error = CompileError(line=bad.line, column=bad.column, end_column=bad.end_column, message=bad.message)
            self.inside(bad.name, error, severity)
        else:
            path = (*self.path, "routes", bad.name, *([bad.key] if bad.key else ()))
            self.at(path, bad.message, name=bad.name, severity=severity)

    def at(
        self, path: KeyPath, message: str, *, name: str = "", severity: Literal["error", "warning"] = "error"
    ) -> None:
        line, column = self.document.place(path)
        self.add(severity, line, column, column + 1, name, message)

    def inside(self, name: str, error: CompileError, severity: Literal["error", "warning"] = "error") -> None:
        """A place inside a route's text, as a place in the file."""
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
