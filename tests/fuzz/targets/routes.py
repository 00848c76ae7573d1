"""The route language and the manifests it comes in: written by people, carried by the hub, judged on every node."""

from __future__ import annotations

from tests.fuzz.target import Target, promise

from fairlead_edge.outbox import manifest
from fairlead_edge.outbox.manifest import ManifestError
from fairlead_edge.outbox.router import Router
from fairlead_edge.routes import operators
from fairlead_edge.routes.compiler import compile_condition, compile_route, evaluate_condition
from fairlead_edge.routes.errors import Invalid, caret
from fairlead_edge.routes.explain import advise, reasons
from fairlead_edge.routes.message import ENCODINGS, RoutedMessage
from fairlead_hub.cluster import sync_rule

PROPERTIES: dict[str, str | None] = {"unit": "motor7", "qty": "3", "blank": None}
SYSTEM: dict[str, str | None] = {"contentType": "application/json", "contentEncoding": "utf-8"}
BODY = b'{"n": 5, "s": "motor7", "t": true, "nil": null, "list": [1, 2], "a": {"b": "c"}}'
MESSAGE = RoutedMessage(PROPERTIES, SYSTEM, BODY)
SOURCES = ("/messages/modules/a/outputs/b", "/messages", "/twinChangeNotifications")


def _places_are_in(text: str, invalid: Invalid) -> None:
    lines = text.split("\n")
    promise(bool(invalid.errors), "a refusal names at least one mistake")
    for error in invalid.errors:
        promise(1 <= error.line <= len(lines), "a mistake is on a line of the text")
        promise(1 <= error.column < error.end_column <= len(lines[error.line - 1]) + 2, "and at a place of that line")
        promise("^" in caret(text, error), "that can be pointed at")


def condition(content: bytes) -> None:
    text = content.decode(errors="surrogateescape")
    for source in ("/messages", "/twinChangeNotifications"):
        try:
            compiled = compile_condition(text, source)
        except Invalid as invalid:
            _places_are_in(text, invalid)
        else:
            answer = evaluate_condition(compiled, MESSAGE)
            promise(answer in (True, False, "undefined"), "a condition is true, false or undefined")
            explained = bool(reasons(compiled, MESSAGE)) or compiled.node is None
            promise(explained >= (answer == "undefined"), "what is undefined is explained, unless it is empty")


def route(content: bytes) -> None:
    text = content.decode(errors="surrogateescape")
    try:
        compiled = compile_route(text)
    except Invalid as invalid:
        _places_are_in(text, invalid)
        return
    advise(compiled)
    for source in SOURCES:
        promise(compiled.matches(source, MESSAGE) in (True, False), "it matches or not")


def read_manifest(content: bytes) -> None:
    found = manifest.parse(content)
    names = {each.name for each in found.routes} & {each.name for each in found.quarantined}
    promise(not names, "a route runs or is set aside, not both")
    merged = manifest.merge([("b", found), ("a", found)])
    promise({each.name for each in merged.routes} == {each.name for each in found.routes}, "a twin adds nothing")
    router = Router(merged, "edge-1")
    for source in SOURCES:
        for delivery in router.route(MESSAGE, source):
            promise(bool(delivery.topic) or "/" in delivery.endpoint, "it goes to a topic or to a module")
    for topic in router.topics:
        promise(not topic.startswith("system/"), "Fairlead's own topics are granted to no route")


def granted(content: bytes) -> None:
    """What the hub grants of an EdgeRoutes object covers all that its nodes make of it."""
    body = {"metadata": {"name": "r", "uid": "u", "generation": 1}, "spec": manifest.decode(content)}
    found = sync_rule.routes(body)
    mine = manifest.parse(content)
    wanted = {each.topic for each in mine.routes if not each.route.sink.module}
    promise(wanted <= found.topics, f"the hub grants what the edge uses; {sorted(wanted - found.topics)} it does not")


def body(content: bytes) -> None:
    """The first byte chooses the encoding that is claimed."""
    encoding = ENCODINGS[content[0] % len(ENCODINGS)] if content else "utf-8"
    message = RoutedMessage(PROPERTIES, {**SYSTEM, "contentEncoding": encoding}, content[1:])
    promise((message.document is None) == bool(message.problem), "a body that cannot be read says why")
    answer = evaluate_condition(_CONDITION, message)
    promise(answer in (True, False, "undefined"), "a condition is true, false or undefined")


_CONDITION = compile_condition(
    "as_number($body.a) > 1 OR $body.a = b OR substring($body.b, 1) = 'x' OR is_null($body.list[0].c) "
    "OR concat($body.a, $body.b) = '' OR $body.a + $body.b < 3 OR $body.a <> $body.b OR length($body.a) % 2 = 1"
)


def path(content: bytes) -> None:
    found = operators.parse(content.decode(errors="surrogateescape"))
    documents: tuple[object, ...] = ({"a": [1, {"b": None}]}, [], None, {"": {"": 1}})
    for document in documents:
        operators.value_of(operators.find(document, found))


WORDS = tuple(
    each.encode()
    for each in """FROM SELECT WHERE INTO $upstream BrokeredEndpoint('/modules/m/inputs/i') /messages /* */ /modules/
    outputs /twinChangeNotifications AND OR NOT true false null undefined is_defined( is_null( is_string( is_number(
    as_number( abs( power( ceiling( length( concat( substring( index_of( contains( starts_with( ends_with( upper(
    lower( twin_change_includes( $body. $body.a[0] $connectionModuleId {$body.s} unit 'a' "b" -1 0x1F 1e6 .5 || ?? <> !=
    <= >= = < > + - * / % ( ) , ; :""".split()  # noqa: SIM905
)
TARGETS = (
    Target(
        name="route-condition",
        says="A condition: one of three answers, or mistakes at places inside the text.",
        read=condition,
        refusals=(),
        shape="text",
        words=WORDS,
        tries=300,
    ),
    Target(
        name="route",
        says="A whole route: it matches or not, or mistakes at places inside the text.",
        read=route,
        refusals=(),
        shape="text",
        words=WORDS,
        tries=300,
    ),
    Target(
        name="route-manifest",
        says="A manifest of routes as JSON: each route runs or is set aside, and messages can be routed by it.",
        read=read_manifest,
        refusals=(ManifestError,),
        shape="json",
        words=WORDS,
        tries=200,
    ),
    Target(
        name="route-grants",
        says="The same object at the hub and at the edge: every topic that the edge uses, the hub grants.",
        read=granted,
        refusals=(ManifestError, ValueError, RecursionError),
        shape="json",
        words=WORDS,
        tries=200,
    ),
    Target(
        name="route-body",
        says="A message's body that a condition looks into, in three encodings: a document, or why not.",
        read=body,
        refusals=(),
        shape="bytes",
    ),
    Target(
        name="route-path",
        says="A path into a body.",
        read=path,
        refusals=(ValueError,),
        shape="text",
        words=(b".", b"[0]", b"a", b"$body"),
    ),
)
