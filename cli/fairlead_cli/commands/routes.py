"""`fairlead routes`: lists EdgeRoutes, checks manifests, and tries out the route language."""

from __future__ import annotations

import base64
import contextlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from fairlead_cli import batch
from fairlead_cli.commands.routes_list import list_
from fairlead_cli.default_command import DefaultCommand

if TYPE_CHECKING:
    from fairlead_cli.manifests import PlacedManifest
    from fairlead_edge.outbox import publishing
    from fairlead_edge.outbox.manifest import Manifest
    from fairlead_edge.outbox.router import RouteTarget
    from fairlead_edge.routes.message import RoutedMessage

DEFAULT_SOURCE = "/messages"
DEFAULT_NODE = "node"
STORED_BESIDES = ("id", "node", "epoch", "stream", "sequence", "priority", "enqueued_at", "enqueuedAt", "topic")
"""Fields of a message in a topic that were not published."""
FILE_BYTES_MAX = 4 * 1024 * 1024
EVAL_EXAMPLE = '{"condition": "as_number(temp) > 20", "message": {"properties": {"temp": "21"}}}'
MATCH_EXAMPLE = '{"manifest": {...}, "source": "/messages", "message": {...}, "node": "n"}'


def register(root: click.Group) -> None:
    """Add `routes` to the root command."""
    root.add_command(routes)


@click.group(cls=DefaultCommand, short_help="List EdgeRoutes, check manifests, try conditions.")
def routes() -> None:
    """List EdgeRoutes and their state at nodes, check manifests, and try out routes. Without a command: list.

    \b
    A route:  FROM /messages/* WHERE as_number(temp) > 20 INTO $upstream
    """


routes.add_command(list_)


@routes.command("eval")
def evaluate() -> None:
    """Evaluate conditions; one JSON object per line in and out.

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
    """Show where messages would be sent; one JSON object per line in and out.

    \b
    in:   {"manifest": {...}, "source": "...", "message": {...}, "node": "n"}
    out:  {"deliveries": [{"endpoint", "topic", "queue", "priority", "ttl", "routes"}]}
    or:   {"error": [...]} when the manifest or any of its routes is bad

    topic is absent for an endpoint on the node. ttl is in seconds, null for never; routes lists all that matched, the
    deciding one first. If a route is given both as text and as an object, the object is used.
    """
    batch.reject_terminal(MATCH_EXAMPLE)
    from fairlead_edge.outbox import manifest

    batch.answer_lines(answer_match, manifest.decode)


@routes.command("dry-run")
@click.argument("manifest", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--node", default=DEFAULT_NODE, show_default=True, help="Name of the node, which is part of endpoint ids."
)
def dry_run(manifest: Path, node: str) -> None:
    """Try MANIFEST on messages without applying it: shows the result of each route and, if undefined, why.

    \b
    in:   {"source": "...", "message": {...}}, one per line; or messages as they were published or stored:
          {"source": "...", "properties": {}, "systemProperties": {}, "body": ... | "bodyBase64": "..."}
    out:  {"deliveries": [...], "routes": [{"name", "result", "reasons": [...]}], "quarantined": [...]}
    or:   {"error": [{"message"}]} if the agent would refuse the message

    Messages are read by the agent's own code: a JSON body implies its contentType and contentEncoding.
    """
    batch.reject_terminal('{"source": "/messages", "message": {"properties": {}, "body": {}}}')
    from fairlead_edge.outbox.manifest import ManifestError, merge, parse

    good, refused = [], []
    for placed in _placed(str(manifest), _text(str(manifest))):
        try:
            good.append((placed.name, parse(placed.value)))
        except ManifestError as error:
            refused += [{"origin": placed.name, "message": reason} for reason in error.reasons]
    if not good:
        raise click.UsageError(f"{manifest}: {'; '.join(str(each['message']) for each in refused)}")
    merged = merge(good)
    batch.answer_lines(lambda request: answer_dry_run(merged, node, request, refused))


@routes.command()
@click.argument("manifest", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Output format.")
def check(manifest: str, output: str) -> None:
    """Check MANIFEST, in JSON or YAML: plain, in EdgeRoutes objects, or in a deployment document; - is standard input.

    Mistakes are printed as FILE:LINE:COL: MESSAGE, with a caret below their place. Exit codes: 0 no mistakes, 1
    mistakes (also if the file is neither JSON nor YAML), 2 the file does not exist.

    \b
    kubectl get edgeroutes -o yaml | fairlead routes check -
    """
    from fairlead_cli import manifests
    from fairlead_cli.manifests import NoYamlPackage

    text = _text(manifest)
    try:
        names, findings = manifests.check_text(text)
    except NoYamlPackage as missing:
        raise click.UsageError(f"{manifest}: {missing}") from None
    mistakes = sum(finding.severity == "error" for finding in findings)
    if output == "json":
        click.echo(msgspec.json.encode({"file": manifest, "routes": names, "findings": findings}))
    else:
        for finding in findings:
            click.echo(finding.shown(manifest, text))
        click.echo(f"{manifest}: {len(names)} valid, {mistakes} error{'' if mistakes == 1 else 's'}", err=True)
    sys.exit(1 if mistakes else 0)


# ── batch answers ──


def answer_eval(request: dict[str, Any]) -> dict[str, Any]:
    """The result of one condition on one message."""
    from fairlead_edge.routes.compiler import compile_condition, evaluate_condition
    from fairlead_edge.routes.errors import Invalid

    condition = request.get("condition")
    if not isinstance(condition, str):
        raise batch.BadBatchLine("condition: expected text")
    source = _source(request)
    message = message_of(request.get("message"))
    try:
        compiled = compile_condition(condition, source)
    except Invalid as invalid:
        return {"error": [error.as_json() for error in invalid.errors]}
    return {"result": evaluate_condition(compiled, message)}


def answer_match(request: dict[str, Any]) -> dict[str, Any]:
    """The deliveries of one message by one manifest."""
    from fairlead_edge.outbox.manifest import ManifestError, parse
    from fairlead_edge.outbox.router import Router

    manifest = request.get("manifest")
    if not isinstance(manifest, dict):
        raise batch.BadBatchLine("manifest: expected an object")
    node = request.get("node", DEFAULT_NODE)
    if not isinstance(node, str) or not node:
        raise batch.BadBatchLine("node: expected text")
    source = _source(request)
    message = message_of(request.get("message"))
    try:
        parsed = parse(manifest)
    except ManifestError as refused:
        return {"error": [{"message": reason} for reason in refused.reasons]}
    if bad := [*parsed.quarantined, *parsed.odd_names]:
        return {"error": bad}
    return {"deliveries": [_delivery(each) for each in Router(parsed, node).route(message, source)]}


def answer_dry_run(
    manifest: Manifest, node: str, request: dict[str, Any], refused: Sequence[dict[str, Any]] = ()
) -> dict[str, Any]:
    """The deliveries of one message as the agent would read it, and the result of each valid route.

    `refused`: objects that are not manifests; on a node the others are still in force.
    """
    from fairlead_edge.outbox import publishing
    from fairlead_edge.outbox.router import Router
    from fairlead_edge.routes import explain
    from fairlead_edge.routes.compiler import evaluate_condition

    submission = _submission(request)
    router = Router(manifest, node)
    [result] = publishing.plan([submission], router, new_id=str, enqueued_at="").results
    if isinstance(result, publishing.NotAccepted):
        return batch.error(result.error.message)
    assert isinstance(submission, publishing.Submission)
    source, message = submission.source, publishing.routed(submission)
    asked = []
    for each in manifest.routes:
        condition = each.route.condition
        if not each.route.source.matches(source):
            reason = f"the source {source} is not below {each.route.source.text}"
            asked.append({"name": each.name, "result": False, "reasons": [reason]})
        else:
            outcome = evaluate_condition(condition, message)
            asked.append({"name": each.name, "result": outcome, "reasons": explain.reasons(condition, message)})
    deliveries = [_delivery(each) for each in router.route(message, source)]
    return {"deliveries": deliveries, "routes": asked, "quarantined": [*manifest.quarantined, *refused]}


def _submission(request: dict[str, Any]) -> publishing.Submission | publishing.RefusalReason:
    """The request as a producer would have sent it to the agent, parsed by the agent's own reader.

    It may be a message as published, a message below `message`, or a message as stored in a topic.
    """
    from fairlead_edge.outbox import publishing

    inner = request.get("message", {})
    if not isinstance(inner, dict):
        raise batch.BadBatchLine("message: expected an object")
    given = {**request, **inner, "source": request.get("source", inner.get("source", DEFAULT_SOURCE))}
    sent = {name: value for name, value in given.items() if name not in (*STORED_BESIDES, "message")}
    if "bodyBase64" in sent and sent.get("body") is None:
        sent.pop("body", None)
    elif "body" not in sent and "bodyBase64" not in sent:
        sent["bodyBase64"] = ""  # a condition on properties alone can be tried without inventing a body
    try:
        [submission] = publishing.parse(msgspec.json.encode({"messages": [sent]}))
    except publishing.RequestRefused as error:
        raise batch.BadBatchLine(str(error)) from None
    return submission


def message_of(value: object) -> RoutedMessage:
    """The message of a request; every part is optional."""
    from fairlead_edge.routes.message import RoutedMessage

    message = {} if value is None else value
    if not isinstance(message, dict):
        raise batch.BadBatchLine("message: expected an object")
    properties = _texts(message, "properties")
    system_properties = _texts(message, "systemProperties")
    return RoutedMessage(properties, system_properties, _body(message, system_properties))


def _texts(message: dict[str, Any], key: str) -> dict[str, str | None]:
    values = message.get(key)
    if values is None:
        return {}
    if not isinstance(values, dict) or not all(value is None or isinstance(value, str) for value in values.values()):
        raise batch.BadBatchLine(f"message.{key}: expected an object of texts and nulls")
    return values


def _body(message: dict[str, Any], system_properties: Mapping[str, str | None]) -> bytes | str:
    if "bodyBase64" in message:
        return _bytes(message["bodyBase64"])
    if "body" not in message:
        return b""
    if isinstance(message["body"], str):
        return message["body"]
    named = {name.lower(): value for name, value in system_properties.items()}.get("contentencoding")
    encoding = (named or "").lower()
    text = json.dumps(message["body"], ensure_ascii=False)
    return text.encode(encoding if encoding in ("utf-16", "utf-32") else "utf-8")


def _bytes(text: object) -> bytes:
    if isinstance(text, str):
        with contextlib.suppress(ValueError):
            return base64.b64decode(text, validate=True)
    raise batch.BadBatchLine("message.bodyBase64: not base64")


def _source(request: dict[str, Any]) -> str:
    source = request.get("source", DEFAULT_SOURCE)
    if not isinstance(source, str):
        raise batch.BadBatchLine("source: expected text")
    return source


def _delivery(delivery: RouteTarget) -> dict[str, Any]:
    return {
        "endpoint": delivery.endpoint,
        **({"topic": delivery.topic} if delivery.topic else {}),
        "queue": str(delivery.queue),
        "priority": delivery.priority,
        "ttl": delivery.ttl_seconds,
        "routes": delivery.routes,
    }


# ── files ──


def _text(path: str) -> str:
    """The text of a file, limited in size before it is decoded."""
    with click.open_file(path, "rb") as file:
        raw: bytes = file.read(FILE_BYTES_MAX + 1)
    if len(raw) > FILE_BYTES_MAX:
        raise click.UsageError(f"{path}: larger than {FILE_BYTES_MAX} bytes")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise click.UsageError(f"{path}: not UTF-8") from None


def _placed(path: str, text: str) -> list[PlacedManifest]:
    """The manifests in a file.  Raises ``click.UsageError`` if there are none."""
    from fairlead_cli import manifests
    from fairlead_cli.manifests import NotReadable

    try:
        found = manifests.read(text)
    except NotReadable as reason:
        raise click.UsageError(f"{path}:{reason.line}:{reason.column}: {reason}") from None
    if not found:
        for each in manifests.misspelled(text):
            raise click.UsageError(f"{path}:{each.line}:{each.column}: {each.message}")
        raise click.UsageError(f"{path}: holds no route manifest")
    return found
