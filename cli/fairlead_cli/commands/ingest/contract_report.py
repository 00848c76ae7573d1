"""What `fairlead ingest check` found, for people: what changed, and what messages of each topic would become."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fairlead_cli.text.printable import one_line

# Of each list; JSON has all of them.
SHOWN_MAX = 20
_NAME_CHARS_MAX = 60
_BROKEN = {"refused": "refused", "removed": "breaks", "stricter": "breaks", "version": "version"}
_MEANINGS = {
    "not_utf8": "is no UTF-8 text",
    "not_json": "is no JSON",
    "not_an_object": "is no object",
    "too_deep": "is nested too deep",
    "bad_field": "cannot be read",
    "other": "is refused",
}


def lines(answer: Mapping[str, Any]) -> Iterator[str]:
    """One check, as ``-o json`` prints it, in lines."""
    contract = answer["contract"]
    title = f"{contract['name']} version {contract['version']}" if contract["name"] else "no name and version"
    routes = f", {contract['routes']} routes" if contract["routes"] else ""
    yield one_line(f"{contract['file']}: {title}, {contract['mode']}, {contract['columns']} columns{routes}")
    if "against" in answer:
        yield f"against {one_line(answer['against']['file'])}:"
        yield from _changes(answer["against"]["changes"])
    for table in answer.get("tables", ()):
        if table["exists"]:
            yield f"table {one_line(table['table'])}:"
            yield from _changes(table["changes"])
        else:
            yield f"table {one_line(table['table'])}: not there yet"
    for topic in answer.get("topics", ()):
        yield from _topic(topic)
    if not answer.get("topics"):
        yield "no messages were played; name a TOPIC"


def _changes(changes: list[Mapping[str, Any]]) -> Iterator[str]:
    if not changes:
        yield "  nothing changes"
    for each in changes:
        where = " ".join(one_line(part) for part in (_route(each["route"]), each["column"]) if part)
        kind = _BROKEN.get(each["kind"], "ok")
        yield f"  {kind:<8} {where}{' ' if where else ''}{one_line(each['what'])}"


def _route(name: str) -> str:
    return f"route {name}:" if name else ""


def _topic(topic: Mapping[str, Any]) -> Iterator[str]:
    parts = [f"{topic['messages']:,} messages", f"{topic['fit']:,} fit"]
    if topic["rescued"]:
        parts.append(f"{topic['rescued']:,} would be rescued")
    if topic["dead_letters"] or topic["fit"] == topic["messages"]:
        parts.append(f"{topic['dead_letters']:,} would be dead letters")
    yield f"{one_line(topic['topic'])}: {', '.join(parts)}"
    for each in topic["wrong"][:SHOWN_MAX]:
        yield f"  {each['messages']:>9,}  {each['code']}: {_wrong(each)}"
        yield f"             {each['example_id']}: {one_line(each['example']) or '(nothing)'}"
    yield from _more(len(topic["wrong"]) - SHOWN_MAX, "ways not to fit")
    if topic["unknown"]:
        yield "  fields without a column:"
    for each in topic["unknown"][:SHOWN_MAX]:
        yield f"  {each['messages']:>9,}  {_name(each['name'])}: {each['type'] or 'only null'}"
    yield from _more(len(topic["unknown"]) - SHOWN_MAX, "fields")
    if topic["untold"]:
        yield f"  and more that are not listed one by one, {topic['untold']:,} times"
    for name, messages in topic["routes"].items():
        what = f"route {one_line(name)}" if name else "no route"
        yield f"  {messages:>9,}  {what}"
    silent = [name for name, messages in topic["routes"].items() if name and not messages]
    if silent:
        yield f"  no message for {', '.join(map(one_line, silent))}"


def _more(count: int, what: str) -> Iterator[str]:
    if count > 0:
        yield f"  and {count} more {what}; -o json lists them"


def _wrong(kind: Mapping[str, Any]) -> str:
    name = _name(kind["field"]) if kind["field"] else "body" if kind["code"] == "misfit" else "payload"
    meaning = kind["reason"] or _MEANINGS.get(kind["code"], "is not of its type")
    return f"{name}: {one_line(meaning)}"


def _name(text: str) -> str:
    return one_line(text if len(text) <= _NAME_CHARS_MAX else f"{text[:_NAME_CHARS_MAX]}…")
