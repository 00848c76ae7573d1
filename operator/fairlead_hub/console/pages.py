"""One function per page: values in, a complete HTML document out, usable without script.  And who may see them.

The console is available where ``/v1/…`` is: on loopback to all programs of the machine (including ``kubectl
port-forward``), elsewhere to certificates of ``tls_ca``.  Pages are requested by browsers, so the rule for browsers
(decision 0502) is checked here (``refusal``) with one exception: a link that a person follows may be on another site's
page.  Every answer has ``HEADERS``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode

from fairlead_hub.console import sections
from fairlead_hub.console.html import Html, tag, text
from fairlead_hub.console.lines import STATES, EventLine, NodeLine, TopicsSeen
from fairlead_hub.console.sections import HOME
from fairlead_hub.console.snapshot import ConsoleSnapshot
from fairlead_hub.console.traces import KeptTraces, node_traces, traces_page
from fairlead_hub.wall_clock import WallClock
from fairlead_wire.http import browser
from fairlead_wire.objects import resource
from fairlead_wire.validation.route_manifest import priority_shown

ROWS = 100
"""Nodes per page without script."""
EVENTS_BESIDE = 12
EVENTS_SHOWN = 200
NAV = (
    ("", "Overview"),
    ("nodes", "Nodes"),
    ("parked", "Parked"),
    ("queues", "Queues"),
    ("topics", "Topics"),
    ("events", "Events"),
    ("traces", "Traces"),
    ("explain", "Explain"),
)
MARK = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'%3E%3Crect width='32' height='32'"
    " rx='8' fill='%230f766e'/%3E%3Ccircle cx='16' cy='16' r='7' fill='none' stroke='white' stroke-width='3'/%3E%3Cpath"
    " d='M3 16h8M21 16h8' stroke='white' stroke-width='3'/%3E%3C/svg%3E"
)
"""The icon, inline: browsers then do not request /favicon.ico."""


class PageContext(NamedTuple):
    """What every page is rendered from."""

    snapshot: ConsoleSnapshot
    topics: TopicsSeen
    role: str
    """What this hub does instead of serving nodes; empty if it serves them."""
    last_id: str
    """Id of the newest frame, where the page's stream continues."""
    assets: str
    """Part of the addresses of style and script; changes with their content."""
    traces: KeptTraces | None = None
    """None if this hub records no traces."""


def _document(view: PageContext, here: str, title: str, *children: object, live: Iterable[str] = ()) -> str:
    links = [
        tag("li", tag("a", name, href=HOME + path, aria_current="page" if path == here else None))
        for path, name in NAV
        if path != "traces" or view.traces is not None
    ]
    wants = ",".join(("notices", *live))
    return "<!doctype html>" + tag(
        "html",
        tag(
            "head",
            tag("meta", charset="utf-8"),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("meta", name="color-scheme", content="light dark"),
            tag("title", f"{title} · Fairlead"),
            tag("link", rel="icon", href=MARK),
            tag("link", rel="stylesheet", href=f"{HOME}static/{view.assets}/console.css"),
            tag("script", src=f"{HOME}static/{view.assets}/console.js", type="module"),
        ),
        tag(
            "body",
            tag("a", "Skip to the content", href="#content", class_="skip"),
            tag(
                "header",
                tag(
                    "a",
                    tag("img", src=MARK, alt="", width=24, height=24),
                    tag("span", "Fairlead"),
                    href=HOME,
                    class_="brand",
                ),
                tag("nav", tag("ul", links), aria_label="Console"),
                tag("button", "Live", id="live", type="button", hidden=True, aria_pressed="true"),
            ),
            tag(
                "main",
                tag("div", tag("h1", title), tag("p", *_whose(view), class_="hint"), class_="top"),
                sections.notices(view.snapshot, view.role),
                *children,
                id="content",
                tabindex="-1",
            ),
            tag(
                "footer",
                tag("p", "Read-only. Actions: ", tag("code", "kubectl fairlead"), "."),
                tag("p", "", id="said", role="status"),
            ),
            data_after=view.last_id,
            data_wants=wants,
            data_at=view.snapshot.at,
        ),
        lang="en",
    )


def _whose(view: PageContext) -> tuple[object, ...]:
    since = tag("noscript", " · as of ", sections.moment(view.snapshot.at))
    return "hub ", tag("code", view.snapshot.hub), f" · fence {view.snapshot.fence}", since


def overview(view: PageContext, events: Iterable[EventLine]) -> str:
    snapshot = view.snapshot
    return _document(
        view,
        "",
        "Overview",
        sections.totals(snapshot, view.topics),
        sections.attention(snapshot, view.topics),
        sections.queues(snapshot),
        sections.topics(view.topics),
        _events(list(events)[:EVENTS_BESIDE], EVENTS_BESIDE, tag("a", "All events", href=f"{HOME}events")),
        live=("totals", "attention", "queues", "topics", "events"),
    )


def _events(lines: list[EventLine], shown: int, hint: object = None) -> Html:
    empty = sections.nothing("No events since this hub started.") if not lines else None
    return sections.panel("happened", "Events", sections.event_list(lines, shown), empty, hint=hint)


def parked(view: PageContext) -> str:
    body = sections.attention(view.snapshot, view.topics), sections.parked(view.snapshot)
    return _document(view, "parked", "Parked", *body, live=("attention", "parked"))


def queues(view: PageContext) -> str:
    return _document(view, "queues", "Queues", sections.queues(view.snapshot), live=("queues",))


def topics(view: PageContext) -> str:
    return _document(view, "topics", "Topics", sections.topics(view.topics), live=("topics",))


def events(view: PageContext, lines: Iterable[EventLine]) -> str:
    return _document(view, "events", "Events", _events(list(lines), EVENTS_SHOWN), live=("events",))


def traces(view: PageContext, kept: KeptTraces, search: str) -> str:
    return _document(view, "traces", "Traces", *traces_page(kept, search))


# ---- nodes ---------------------------------------------------------------------------------------


def matching(lines: Iterable[NodeLine], search: str, state: str) -> list[NodeLine]:
    """The same filter as in the script: each word occurs in the name, agent or note, and the state matches."""
    words = search.lower().split()
    found = []
    for line in lines:
        where = f"{line.name}\n{line.agent}\n{line.note}".lower()
        if (not state or line.state == state) and all(word in where for word in words):
            found.append(line)
    return found


def nodes(view: PageContext, search: str, state: str, page: int) -> str:
    found = matching(view.snapshot.lines.values(), search, state)
    last = max(0, (len(found) - 1) // ROWS)
    page = min(max(0, page), last)
    shown = found[page * ROWS : (page + 1) * ROWS]
    options = [tag("option", "All states", value="")]
    options += [tag("option", name, value=key, selected=key == state) for key, name in STATES.items()]
    form = sections.filter_form(
        "nodes",
        search,
        "name, agent, reason",
        f"{sections.number(len(found))} of {sections.number(len(view.snapshot.lines))} nodes",
        tag("label", "State", for_="state"),
        tag("select", options, id="state", name="state"),
    )
    table = sections.table("Nodes", sections.NODE_HEAD, map(sections.node_row, shown), id="rows")
    box = tag("div", table, id="scroller", tabindex="0", role="region", aria_label="Nodes")
    return _document(view, "nodes", "Nodes", form, box, _pager(search, state, page, last), live=("nodes",))


def _pager(search: str, state: str, page: int, last: int) -> Html | None:
    if not last:
        return None

    def link(name: str, to: int, rel: str) -> Html | None:
        query = urlencode({"q": search, "state": state, "page": to})
        return tag("a", name, href=f"{HOME}nodes?{query}", rel=rel) if 0 <= to <= last and to != page else None

    return tag(
        "nav",
        link("Previous", page - 1, "prev"),
        tag("span", f"page {page + 1} of {last + 1}"),
        link("Next", page + 1, "next"),
        class_="pager",
        id="pager",
        aria_label="Pages",
    )


def node(view: PageContext, line: NodeLine, detail: Mapping[str, Any]) -> str:
    """One node in detail; ``detail`` is ``HubView.node``."""
    facts = [
        ("State", sections.badge(line.state)),
        ("Why", line.note or None),
        ("Last contact", sections.moment(WallClock.moment(detail["lastContact"]))),
        ("Agent", line.agent or "–"),
        ("Wanted", sections.number(detail["wanted"])),
        ("Held", sections.number(detail["held"])),
        ("Pending", sections.number(detail["pending"])),
        ("Oldest pending since", sections.moment(line.since) if line.pending else None),
        ("Parked", sections.number(detail["parked"])),
        ("Kept", sections.number(detail["kept"]) if detail["kept"] else None),
        ("Dead letters", sections.number(line.dead_letters) if line.dead_letters else None),
        ("Granted topics", ", ".join(detail["grantedTopics"]) or "–"),
    ]
    about = [tag("div", tag("dt", name), tag("dd", value)) for name, value in facts if value is not None]
    parked: list[tuple[object, ...]] = [
        (sections.explain_link(line.name, each["key"]), tag("code", each["code"]), each["reason"], each["retries"])
        for each in detail.get("parkedObjects", ())
    ]
    pending: list[tuple[object, ...]] = [
        (sections.explain_link(line.name, each["key"]), each["step"]) for each in detail.get("pendingObjects", ())
    ]
    kept: list[tuple[object, ...]] = [
        (sections.explain_link(line.name, each["key"]), each["reason"]) for each in detail.get("keptObjects", ())
    ]
    parts = [sections.panel("about", "State", tag("dl", about, class_="facts"))]
    for id, title, head, rows in (
        ("node-parked", "Parked", (("Object", ""), ("Code", ""), ("Why", "wide"), ("Retries", "n")), parked),
        ("node-pending", "Pending", (("Object", ""), ("Step", "wide")), pending),
        ("node-kept", "Kept, not deleted", (("Object", ""), ("Why", "wide")), kept),
    ):
        if rows:
            parts.append(sections.panel(id, title, sections.table(title, head, rows)))
    parts.append(sections.panel("node-queues", "Messages at this node", _node_queues(detail)))
    if view.traces is not None:
        parts.append(node_traces(view.traces, line.name))
    parts.append(sections.panel("ask", "Why is an object on this node, or not?", explain_form({"node": line.name})))
    body = tag("div", parts, id="node", data_node=line.name)
    return _document(view, "nodes", line.name, body, live=("nodes",))


def _node_queues(detail: Mapping[str, Any]) -> Html:
    head = (("Endpoint", ""), ("Priority", "n"), ("Messages", "n"), ("Size", "n"), ("Stalled by", "wide"))
    rows = [
        (
            queue.endpoint,
            priority_shown(queue.priority),
            sections.number(queue.length),
            sections.size(queue.bytes),
            queue.stalled_by or "–",
        )
        for queue in detail["queues"]
    ]
    if rows:
        return sections.table("Queues of this node", head, rows)
    return sections.nothing("The queues are empty." if detail["connected"] else "Unknown while the node is away.")


# ---- one object ----------------------------------------------------------------------------------


def explain_form(given: Mapping[str, str]) -> Html:
    fields = []
    for key, example, required in (
        ("node", "edge-1", True),
        ("kind", "configmap", True),
        ("namespace", "default", False),
        ("name", "prices", True),
    ):
        label = tag("label", key.capitalize(), for_=f"ask-{key}")
        fields.append(
            tag(
                "div",
                label,
                tag(
                    "input",
                    id=f"ask-{key}",
                    name=key,
                    value=given.get(key, ""),
                    placeholder=example,
                    required=required,
                    autocomplete="off",
                    maxlength=253,
                ),
            )
        )
    return tag(
        "form", fields, tag("button", "Explain", type="submit"), action=f"{HOME}explain", method="get", class_="ask"
    )


def explain(view: PageContext, given: Mapping[str, str], answer: Mapping[str, Any] | None) -> str:
    """How far one object is on its way to one node; ``answer`` is ``HubView.explained``."""
    body: list[object] = [sections.panel("ask", "Why is an object on a node, or not?", explain_form(given))]
    if answer is not None:
        facts: list[tuple[str, object]] = [
            ("Step", tag("code", answer["code"])),
            ("Node", sections.node_link(answer["node"])),
        ]
        if delivered := answer.get("lastDelivered"):
            facts.insert(0, ("Last delivered", sections.moment(WallClock.moment(delivered))))
        for key, name in (("wanted", "Wanted"), ("held", "Held")):
            if said := answer.get(key):
                facts.append((name, f"version {said['resourceVersion']}, uid {said['uid']}"))
        about = [tag("div", tag("dt", name), tag("dd", value)) for name, value in facts]
        answered = tag("p", answer["answer"], class_="answer")
        title, details = resource.shown(answer["key"]), tag("dl", about, class_="facts")
        body.insert(0, sections.panel("answer", title, answered, details))
    return _document(view, "explain", "Explain", *body)


def problem(view: PageContext, status: int, sentence: str) -> str:
    """Say what cannot be shown, and why."""
    back = tag("p", tag("a", "To the overview", href=HOME))
    return _document(
        view, "none", "Not found" if status == 404 else "Not possible", tag("p", sentence, class_="answer"), back
    )


def plain(sentence: str) -> str:
    """A refusal for a page of unknown origin: it reveals nothing about this hub."""
    return f"<!doctype html><title>Fairlead</title><p>{text(sentence)}"


# ---- access --------------------------------------------------------------------------------------


POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types console",
    )
)
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def refusal(headers: Mapping[str, str], *, secure: bool) -> str:
    """Why a request with these headers is refused; empty if it is allowed.  ``secure``: it came with a certificate."""
    followed = _is_followed_link(headers)
    if not secure:
        return browser.refusal(_Without(headers) if followed else headers)
    # The client is identified by its certificate, but a browser presents its certificate for any page that asks.
    if browser.is_cross_origin(headers.get("Origin"), headers.get("Host", "")):
        return "pages of other origins may not request this"
    if not followed and headers.get("Sec-Fetch-Site", "none") not in browser.OWN_SITE:
        return "pages of other sites may not request this"
    return ""


def _is_followed_link(headers: Mapping[str, str]) -> bool:
    """A person follows a link in a top-level window: the page with the link cannot read the answer."""
    return headers.get("Sec-Fetch-Mode") == "navigate" and headers.get("Sec-Fetch-Dest") == "document"


class _Without(dict[str, str]):
    """The headers without the site header; the host is still checked."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        super().__init__({key: headers[key] for key in ("Host", "Origin") if key in headers})
