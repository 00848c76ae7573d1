"""The agent's local API, whose clients are other programs on the device; and the file of their tokens."""

from __future__ import annotations

import itertools
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from tests.fuzz.target import Target, promise

from fairlead_edge import module_tokens
from fairlead_edge.io.local_api import bodies
from fairlead_edge.module_tokens import BadTokens
from fairlead_edge.objects.presentation import api_requests, listing, selectors
from fairlead_edge.objects.presentation.api_requests import ApiError, status
from fairlead_edge.objects.presentation.selectors import BadSelector
from fairlead_edge.outbox import envelope, manifest, publishing
from fairlead_edge.outbox.authorship import ANY_PROGRAM, Author, module_of
from fairlead_edge.outbox.outbox import Entry
from fairlead_edge.outbox.publishing import RefusalReason, RequestRefused
from fairlead_edge.outbox.router import Router
from fairlead_wire.link.codec import NESTING_MAX, nesting

ROUTES = {
    "schemaVersion": "1.1",
    "routes": {
        "all": "FROM /messages/* INTO $upstream",
        "some": {
            "route": "FROM /messages WHERE $body.a.b > 1 OR unit = 'x' INTO BrokeredEndpoint('/modules/m/inputs/i')"
        },
    },
    "storeAndForwardConfiguration": {"timeToLiveSecs": 60},
}
_numbers = itertools.count()
_ROUTER = Router(manifest.parse(ROUTES), "edge-1")
DOCUMENTS: tuple[dict[str, Any], ...] = (
    {"metadata": {"name": "a", "namespace": "shop", "labels": {"app": "till", "tier": ""}}, "spec": {"nodeName": "e"}},
    {"metadata": {"name": "b", "labels": None}, "status": {"phase": None}, "spec": []},
    {},
)


def _new_id() -> str:
    return str(next(_numbers))


def publish(content: bytes) -> None:
    """Stored messages can be read, are within the limits, and each message has one result."""
    read = publishing.parse(content)
    for author in (ANY_PROGRAM, Author(module="filter", node="edge-1", has_token=lambda name: name == "till")):
        signed = author.sign(read)
        plan = publishing.plan(signed, _ROUTER, new_id=_new_id, enqueued_at="2026-11-22T10:00:00Z")
        promise(len(plan.results) == len(read), "each message has its answer")
        promise(isinstance(msgspec.json.decode(plan.answer()), dict), "the answer is JSON")
        for entry in plan.entries:
            _can_be_read(entry)
        accepted = [each for each in signed if not isinstance(each, RefusalReason)]
        if author is not ANY_PROGRAM:
            promise(all(module_of(each.source).lower() != "till" for each in accepted), "no module speaks for another")


def _can_be_read(entry: Entry) -> None:
    promise(len(entry.content) <= publishing.MESSAGE_BYTES_MAX, "no stored message is over the limit")
    promise(nesting(entry.content) <= NESTING_MAX + 2, "nor nested deeper than readers go")
    again = envelope.read(entry.content)
    promise(envelope.stored(again) == entry.content, "it is stored as it is read")
    msgspec.json.decode(entry.content)


def body(content: bytes) -> None:
    """The first line names the body's type."""
    kind, _, text = content.partition(b"\n")
    model = {b"ids": bodies.Ids, b"replay": bodies.Replay, b"discard": bodies.Discard}.get(kind, bodies.Ids)
    msgspec.json.decode(text, type=model)


def query(content: bytes) -> None:
    """Take and Page of a query; then lists and watches of the Kubernetes-style API."""
    asked = dict(parse_qsl(content.decode("latin-1"), keep_blank_values=True))
    for model in (bodies.Take, bodies.DeadLetterPage):
        try:
            msgspec.convert(asked, model, strict=False)
        except ValueError:
            continue


def selection(content: bytes) -> None:
    """As kubectl asks for a list: labels, fields, limit, continue, version."""
    asked = dict(parse_qsl(content.decode("latin-1"), keep_blank_values=True))
    try:
        found = listing.read_selection(asked, "", "pods", name=asked.get("name", ""))
    except ApiError as error:
        promise(bool(msgspec.json.encode(status(error))) and 400 <= error.code < 500, "a refusal is the caller's")
        raise
    promise(0 <= found.limit <= listing.LIMIT_MAX, "a page has a limit")
    for document in DOCUMENTS:
        for predicate in found.predicates:
            promise(predicate(document) in (True, False), "a selector decides")


def label_selector(content: bytes) -> None:
    """Surrounding blanks and repeated terms do not change the meaning."""
    text = content.decode(errors="surrogateescape")
    found = selectors.labels(text)
    again = selectors.labels(f"  {text} ")
    for document in DOCUMENTS:
        promise(found(document) == again(document), "blanks mean nothing")
    if text.strip() and len(text) < selectors.SELECTOR_CHARS_MAX // 2:
        doubled = selectors.labels(f"{text},{text}")
        for document in DOCUMENTS:
            promise(found(document) == doubled(document), "a term said twice means the same")


def field_selector(content: bytes) -> None:
    found = selectors.fields(content.decode(errors="surrogateescape"), "", "pods")
    for document in DOCUMENTS:
        found(document)


def path(content: bytes) -> None:
    text = content.decode(errors="surrogateescape")
    found = api_requests.parse(text)
    if isinstance(found, api_requests.Objects):
        parts = [found.group, found.version, found.plural, found.name, found.namespace or ""]
        promise(not any("/" in part for part in parts), "no part of a path holds another one")
        promise(bool(found.version and found.plural), "an object has a version and a type")


def tokens(content: bytes) -> None:
    try:
        found = module_tokens.parse(content.decode())
    except BadTokens as error:
        promise("\n" not in str(error), "a refusal is one line")
        raise
    promise(found.module_of("") == "" and found.module_of("x" * 2000) == "", "a stranger is no module")


TARGETS = (
    Target(
        name="edge-publish",
        says="The body of POST /v1/messages: stored so that it can be read, or refused by name.",
        read=publish,
        refusals=(RequestRefused,),
        shape="json",
        words=(b'"source"', b'"/messages/modules/till/outputs/a"', b'"bodyBase64"', b'"contentEncoding"', b'"utf-16"'),
        tries=200,
    ),
    Target(
        name="edge-body",
        says="Other bodies of the local API.",
        read=body,
        refusals=(msgspec.DecodeError, RecursionError, UnicodeDecodeError),
        shape="request",
    ),
    Target(
        name="edge-query",
        says="Queries of the local API.",
        read=query,
        refusals=(),
        shape="text",
        words=(b"max=", b"wait=", b"lease=", b"after=", b"limit=", b"&", b"nan", b"inf", b"1e999"),
    ),
    Target(
        name="edge-selection",
        says="The query of a list or watch: a selection that decides, or a refusal of the caller.",
        read=selection,
        refusals=(ApiError,),
        shape="text",
        words=(b"labelSelector=", b"fieldSelector=", b"limit=", b"continue=", b"resourceVersion=", b"&", b"Exact"),
    ),
    Target(
        name="label-selector",
        says="A label selector: true or false of any object.",
        read=label_selector,
        refusals=(BadSelector,),
        shape="text",
        words=(b" in ", b" notin ", b"(", b")", b",", b"=", b"==", b"!=", b"!", b"app", b"till"),
    ),
    Target(
        name="field-selector",
        says="A field selector.",
        read=field_selector,
        refusals=(BadSelector,),
        shape="text",
        words=(b"metadata.name", b"spec.nodeName", b"status.phase", b"=", b"!=", b","),
    ),
    Target(
        name="edge-path",
        says="A path of the Kubernetes-style API.",
        read=path,
        refusals=(),
        shape="text",
        words=(b"/api", b"/apis", b"/v1", b"/namespaces", b"/status", b"//", b".."),
    ),
    Target(
        name="module-tokens",
        says="The file of module tokens: names and hashes, or one line that says what is wrong.",
        read=tokens,
        refusals=(BadTokens, UnicodeDecodeError),
        shape="text",
    ),
)
