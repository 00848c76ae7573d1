"""`fairlead routes`: the route language at your desk, before a node depends on it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairlead_cli import batch
from fairlead_cli.positions import Document, KeyPath, NotReadable, read_documents

if TYPE_CHECKING:
    from fairlead_edge.manifest import Manifest, RouteError
    from fairlead_edge.router import Delivery
    from fairlead_edge.routes.errors import CompileError
    from fairlead_edge.routes.message import RoutedMessage

DEFAULT_SOURCE = "/messages"
DEFAULT_NODE = "node"
FILE_BYTES_MAX = 4 * 1024 * 1024
EVAL_EXAMPLE = '{"condition": "as_number(temp) > 20", "message": {"properties": {"temp": "21"}}}'
MATCH_EXAMPLE = '{"manifest": {...}, "source": "/messages", "message": {...}, "node": "n"}'


def register(root: click.Group) -> None:
    """Add `routes` to the root command."""
    root.add_command(routes)


@click.group(short_help="Check manifests, try conditions, see where a message would go.")
def routes() -> None:
    """Check manifests, try conditions, see where a message would go.

    A route says which messages go where:  FROM /messages/* WHERE as_number(temp) > 20 INTO $upstream
    """


@routes.command("eval")
def evaluate() -> None:
    """Evaluate conditions, one JSON object a line in and out.

    \b
    in:   {"condition": "...", "source": "/messages",
           "message": {"properties": {}, "systemProperties": {}, "body": ...}}
    out:  {"result": true | false | "undefined"}
    or:   {"error": [{"message", "line", "column", "endColumn"}]}

    A body that is an object or array is serialised in its contentEncoding; a string is the raw text.
    """
    batch.reject_terminal(EVAL_EXAMPLE)
    batch.answer_lines(answer_eval)


@routes.command("match")
def match() -> None:
    """Say where messages would go, one JSON object a line in and out.

    \b
    in:   {"manifest": {...}, "source": "...", "message": {...}, "node": "n"}
    out:  {"deliveries": [{"endpoint", "queue", "priority", "ttl", "routes"}]}
    or:   {"error": [...]} when the manifest or any of its routes is bad

    ttl is in seconds, null for never; routes names all that matched, the one that decided first.
    """
    batch.reject_terminal(MATCH_EXAMPLE)
    batch.answer_lines(answer_match)


@routes.command("dry-run")
@click.argument("manifest", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--node", default=DEFAULT_NODE, show_default=True, help="The node's name, part of endpoint ids.")
def dry_run(manifest: Path, node: str) -> None:
    """Try MANIFEST on messages without applying it: per route the result and, where undefined, why.

    \b
    in:   {"source": "...", "message": {...}}, one a line
    out:  {"deliveries": [...], "routes": [{"name", "result", "reasons": [...]}], "quarantined": [...]}
    """
    batch.reject_terminal('{"source": "/messages", "message": {"properties": {}, "body": {}}}')
    from fairlead_edge.manifest import merge

    merged = merge([(_object_name(document), _parsed(document, manifest)) for document in _read(manifest)])
    batch.answer_lines(lambda request: answer_dry_run(merged, node, request))


@routes.command()
@click.argument("manifest", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="How to answer.")
def check(manifest: Path, output: str) -> None:
    """Check MANIFEST: JSON or YAML, bare, in an EdgeRoutes object or in a deployment document.

    Each mistake is FILE:LINE:COL: MESSAGE, with a caret under its place. Exit 0 good, 1 mistakes, 2 not readable.
    """
    findings: list[dict[str, Any]] = []
    names: list[str] = []
    for document in _read(manifest):
        names += _check(document, findings)
    findings.sort(key=lambda finding: (finding["line"], finding["column"]))
    mistakes = [finding for finding in findings if finding["severity"] == "error"]
    if output == "json":
        click.echo(json.dumps({"file": str(manifest), "routes": names, "findings": findings}))
    else:
        lines = manifest.read_text(encoding="utf-8").split("\n")
        for finding in findings:
            click.echo(_shown(manifest, lines, finding))
        click.echo(f"{manifest}: {len(names)} good, {len(mistakes)} mistakes", err=True)
    sys.exit(1 if mistakes else 0)


# ── batch answers ──


def answer_eval(request: dict[str, Any]) -> dict[str, Any]:
    """One condition on one message."""
    from fairlead_edge.routes.compiler import compile_condition, evaluate_condition
    from fairlead_edge.routes.errors import Invalid

    condition = request.get("condition")
    if not isinstance(condition, str):
        raise batch.BadLine("condition: expected text")
    source = _source(request)
    message = message_of(request.get("message"))
    try:
        compiled = compile_condition(condition, source)
    except Invalid as invalid:
        return {"error": [error.as_json() for error in invalid.errors]}
    return {"result": evaluate_condition(compiled, message)}


def answer_match(request: dict[str, Any]) -> dict[str, Any]:
    """One message through one manifest."""
    from fairlead_edge.manifest import ManifestError, parse
    from fairlead_edge.router import Router

    manifest = request.get("manifest")
    if not isinstance(manifest, dict):
        raise batch.BadLine("manifest: expected an object")
    node = request.get("node", DEFAULT_NODE)
    if not isinstance(node, str) or not node:
        raise batch.BadLine("node: expected text")
    source = _source(request)
    message = message_of(request.get("message"))
    try:
        parsed = parse(manifest)
    except ManifestError as refused:
        return {"error": [{"message": reason} for reason in refused.reasons]}
    if parsed.quarantined:
        return {"error": list(parsed.quarantined)}
    return {"deliveries": [_delivery(each) for each in Router(parsed, node).route(message, source)]}


def answer_dry_run(manifest: Manifest, node: str, request: dict[str, Any]) -> dict[str, Any]:
    """One message through the good routes of a manifest, with what each said."""
    from fairlead_edge.router import Router
    from fairlead_edge.routes import explain
    from fairlead_edge.routes.compiler import evaluate_condition

    source = _source(request)
    message = message_of(request.get("message"))
    asked = []
    for each in manifest.routes:
        condition = each.route.condition
        if not each.route.source.matches(source):
            reason = f"the source {source} is not below {each.route.source.text}"
            asked.append({"name": each.name, "result": False, "reasons": [reason]})
        else:
            result = evaluate_condition(condition, message)
            asked.append({"name": each.name, "result": result, "reasons": explain.reasons(condition, message)})
    deliveries = [_delivery(each) for each in Router(manifest, node).route(message, source)]
    return {"deliveries": deliveries, "routes": asked, "quarantined": list(manifest.quarantined)}


def message_of(value: object) -> RoutedMessage:
    """The message of a request; every part of it may be absent."""
    from fairlead_edge.routes.message import RoutedMessage

    message = {} if value is None else value
    if not isinstance(message, dict):
        raise batch.BadLine("message: expected an object")
    properties = _texts(message, "properties")
    system_properties = _texts(message, "systemProperties")
    return RoutedMessage(properties, system_properties, _body(message, system_properties))


def _texts(message: dict[str, Any], key: str) -> dict[str, str | None]:
    values = message.get(key)
    if values is None:
        return {}
    if not isinstance(values, dict) or not all(value is None or isinstance(value, str) for value in values.values()):
        raise batch.BadLine(f"message.{key}: expected an object of texts and nulls")
    return values


def _body(message: dict[str, Any], system_properties: Mapping[str, str | None]) -> bytes | str:
    if "body" not in message:
        return b""
    if isinstance(message["body"], str):
        return message["body"]
    named = {name.lower(): value for name, value in system_properties.items()}.get("contentencoding")
    encoding = (named or "").lower()
    text = json.dumps(message["body"], ensure_ascii=False)
    return text.encode(encoding if encoding in ("utf-16", "utf-32") else "utf-8")


def _source(request: dict[str, Any]) -> str:
    source = request.get("source", DEFAULT_SOURCE)
    if not isinstance(source, str):
        raise batch.BadLine("source: expected text")
    return source


def _delivery(delivery: Delivery) -> dict[str, Any]:
    return {
        "endpoint": delivery.endpoint,
        "queue": str(delivery.queue),
        "priority": delivery.priority,
        "ttl": delivery.ttl_seconds,
        "routes": delivery.routes,
    }


# ── files ──


def _read(path: Path) -> list[Document]:
    """The manifests in a file; a YAML file may hold other objects too."""
    with path.open("rb") as file:
        raw = file.read(FILE_BYTES_MAX + 1)
    if len(raw) > FILE_BYTES_MAX:
        raise click.UsageError(f"{path}: larger than {FILE_BYTES_MAX} bytes")
    try:
        documents = read_documents(raw.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise click.UsageError(f"{path}: not UTF-8") from None
    except NotReadable as reason:
        raise click.UsageError(f"{path}:{reason.line}:{reason.column}: {reason}") from None
    objects = [document for document in documents if isinstance(document.value, dict)]
    manifests = [document for document in objects if document.value.get("kind", "EdgeRoutes") == "EdgeRoutes"]
    if not manifests:
        raise click.UsageError(f"{path}: holds no route manifest")
    return manifests


def _object_name(document: Document) -> str:
    """The EdgeRoutes object's name; empty for a bare manifest."""
    metadata = document.value.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""


def _parsed(document: Document, path: Path) -> Manifest:
    from fairlead_edge.manifest import ManifestError, parse

    try:
        return parse(document.value)
    except ManifestError as refused:
        raise click.UsageError(f"{path}: {refused}") from None


def _check(document: Document, findings: list[dict[str, Any]]) -> list[str]:
    """Add what is wrong or odd with one document; gives the names of its good routes."""
    from fairlead_edge.manifest import ManifestError, parse, unknown_keys, unwrap
    from fairlead_edge.routes.advice import advise

    inner, base = unwrap(document.value)
    for path in document.repeated:
        if path[: len(base)] == base:
            _add(findings, document, path, f"{path[-1]} is given twice; the last one counts", severity="warning")
    try:
        manifest = parse(document.value)
    except ManifestError as refused:
        for reason in refused.reasons:
            _add(findings, document, (*base, *reason.partition(":")[0].split(".")), reason)
        return []
    for bad in manifest.quarantined:
        _add_route_error(findings, document, base, inner, bad)
    for name, value in inner.get("routes", {}).items():
        for key in unknown_keys(value):
            path = (*base, "routes", name, key)
            _add(findings, document, path, f"{key}: unknown key, it has no effect", name=name, severity="warning")
    for good in manifest.routes:
        for advice in advise(good.route):
            _add_inside(findings, document, base, inner, good.name, advice, severity="warning")
    return [good.name for good in manifest.routes]


def _add_route_error(
    findings: list[dict[str, Any]], document: Document, base: KeyPath, inner: Mapping[str, Any], bad: RouteError
) -> None:
    from fairlead_edge.routes.errors import CompileError

    if bad.line is not None and bad.column is not None and bad.end_column is not None:
        error = CompileError(line=bad.line, column=bad.column, end_column=bad.end_column, message=bad.message)
        _add_inside(findings, document, base, inner, bad.name, error)
    else:
        _add(findings, document, (*base, "routes", bad.name, bad.message.partition(":")[0]), bad.message, name=bad.name)


def _add_inside(
    findings: list[dict[str, Any]],
    document: Document,
    base: KeyPath,
    inner: Mapping[str, Any],
    name: str,
    error: CompileError,
    severity: str = "error",
) -> None:
    """A place inside a route's text, told as a place in the file."""
    value = inner["routes"][name]
    path = (*base, "routes", name) if isinstance(value, str) else (*base, "routes", name, "route")
    text = value if isinstance(value, str) else value["route"]
    line, column = document.place_inside(path, text, error.line, error.column)
    end_line, end_column = document.place_inside(path, text, error.line, error.end_column - 1)
    findings.append(
        {
            "severity": severity,
            "line": line,
            "column": column,
            "endColumn": max(end_column, column) + 1 if end_line == line else column + 1,
            "name": name,
            "message": f"{name}: {error.message}",
        }
    )


def _add(
    findings: list[dict[str, Any]],
    document: Document,
    path: KeyPath,
    message: str,
    *,
    name: str = "",
    severity: str = "error",
) -> None:
    line, column = document.place(path)
    text = f"{name}: {message}" if name else message
    findings.append(
        {"severity": severity, "line": line, "column": column, "endColumn": column + 1, "name": name, "message": text}
    )


def _shown(path: Path, lines: list[str], finding: dict[str, Any]) -> str:
    """FILE:LINE:COL: MESSAGE, the line, and carets below the place."""
    line = lines[finding["line"] - 1].rstrip("\r") if finding["line"] <= len(lines) else ""
    padding = "".join("\t" if char == "\t" else " " for char in line[: finding["column"] - 1])
    carets = "^" * (finding["endColumn"] - finding["column"])
    label = "" if finding["severity"] == "error" else f"{finding['severity']}: "
    place = f"{path}:{finding['line']}:{finding['column']}"
    return f"{place}: {label}{finding['message']}\n    {line}\n    {padding}{carets}"
