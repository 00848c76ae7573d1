"""The parts of pages that change while one looks: each is one element with an id, and is sent whole when it differs.

Times are moments, never ages: a section differs when something happened, not because a second went by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from urllib.parse import quote, urlencode

from fairlead_hub.console.events import EventLine
from fairlead_hub.console.html import Html, join, tag
from fairlead_hub.console.node_line import NEEDS_A_PERSON, STATES, NodeLine
from fairlead_hub.console.snapshot import ParkedGroup, Queue, Snapshot
from fairlead_hub.console.topics import TopicsSeen
from fairlead_hub.wall_clock import WallClock

HOME = "/console/"
GROUPS_SHOWN = 8
BAR_UNITS = 1000


def number(value: float) -> str:
    return f"{value:,.0f}"


def size(count: float) -> str:
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            break
        count /= 1000
    return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"


def moment(seconds: float) -> Html:
    """When; the script makes an age of it."""
    if not seconds:
        return tag("span", "–", class_="dim")
    iso = WallClock.text_of(int(seconds))
    return tag("time", iso.replace("T", " ").replace("Z", " UTC"), datetime=iso, data_at=int(seconds))


def node_link(name: str) -> Html:
    return tag("a", name, href=f"{HOME}nodes/{quote(name, safe='')}")


def explain_link(node: str, key: str) -> Html:
    kind, _, rest = key.partition("/")
    namespace, _, name = rest.partition("/")
    query = urlencode({"node": node, "kind": kind, "namespace": namespace, "name": name})
    return tag("a", key, href=f"{HOME}explain?{query}")


def badge(state: str) -> Html:
    return tag("span", STATES.get(state, state), class_=f"state {state if state in STATES else 'away'}")


def table(
    caption: str, head: Iterable[tuple[str, str]], rows: Iterable[Iterable[object]], **attributes: object
) -> Html:
    """``head``: what a column is called, and its class; the first cell of a row is its header."""
    columns = list(head)
    titles = [tag("th", title, scope="col", class_=kind or None) for title, kind in columns]
    body = []
    for row in rows:
        cells = [
            tag("td" if place else "th", cell, class_=kind or None, scope=None if place else "row", data_label=title)
            for place, (cell, (title, kind)) in enumerate(zip(row, columns, strict=True))
        ]
        body.append(tag("tr", cells))
    return tag(
        "table",
        tag("caption", caption, class_="unseen"),
        tag("thead", tag("tr", titles)),
        tag("tbody", body),
        **attributes,
    )


def filter_form(page: str, search: str, placeholder: str, count: str, *fields: object) -> Html:
    """Which rows of a page are shown: a search, further ``fields``, and how many were found."""
    return tag(
        "form",
        tag("label", "Search", for_="search"),
        tag(
            "input",
            type="search",
            id="search",
            name="q",
            value=search,
            autocomplete="off",
            placeholder=placeholder,
            maxlength=200,
        ),
        *fields,
        tag("button", "Filter", type="submit"),
        tag("p", count, id="count", role="status"),
        action=f"{HOME}{page}",
        method="get",
        role="search",
        class_="filter",
    )


def panel(id: str, title: str, *children: object, hint: object = None) -> Html:
    head = tag("div", tag("h2", title, id=f"{id}-title"), tag("p", hint, class_="hint") if hint else None, class_="top")
    return tag("section", head, *children, id=id, class_="panel", aria_labelledby=f"{id}-title")


def nothing(text: str) -> Html:
    return tag("p", text, class_="nothing")


# ---- the sections --------------------------------------------------------------------------------


def notices(snapshot: Snapshot, role: str) -> Html:
    """What is wrong with the hub itself; nothing where all is well."""
    found = [f"This hub {role}: what is shown here may be incomplete."] if role else []
    found += snapshot.notices
    return tag("div", [tag("p", each, class_="notice") for each in found], id="notices", role="status")


def totals(snapshot: Snapshot, topics: TopicsSeen) -> Html:
    """How all nodes are, in one bar, and the numbers that matter."""
    count, states = len(snapshot.lines), snapshot.states
    connected = count - states.get("away", 0) - states.get("never", 0) - states.get("refused", 0)
    queued = sum(queue.length for queue in snapshot.from_nodes)
    oldest = max((queue.oldest_seconds for queue in snapshot.from_nodes), default=0)
    cards = [
        _card("Nodes connected", number(connected), f"of {number(count)}", f"{HOME}nodes"),
        _card("Objects on their way", number(snapshot.pending), "to connected nodes", f"{HOME}nodes?state=behind"),
        _card(
            "Objects parked",
            number(snapshot.parked),
            "given up for now" if snapshot.parked else "none",
            f"{HOME}parked",
            bad=bool(snapshot.parked),
        ),
        _card(
            "Messages at nodes", number(queued), f"oldest {_age(oldest)}" if queued else "none wait", f"{HOME}queues"
        ),
    ]
    rates = [line.rate for line in topics.lines if line.rate is not None]
    if topics.is_configured:
        cards.append(_card("Messages a second", f"{sum(rates):,.1f}" if rates else "–", "all topics", f"{HOME}topics"))
    return tag(
        "section",
        tag("h2", "Totals", class_="unseen", id="totals-title"),
        tag("div", cards, class_="cards"),
        _bar(states, count),
        id="totals",
        aria_labelledby="totals-title",
    )


def _age(seconds: int) -> str:
    for unit, name in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{seconds // unit} {name}"
    return f"{seconds} s"


def _card(title: str, value: str, more: str, href: str, *, bad: bool = False) -> Html:
    return tag(
        "a",
        tag("span", title, class_="name"),
        tag("span", value, class_="value"),
        tag("span", more, class_="more"),
        href=href,
        class_="card bad" if bad else "card",
    )


def _bar(states: Mapping[str, int], count: int) -> Html | None:
    """One strip of all nodes by state; the legend beside it says the same in numbers."""
    if not count:
        return nothing("There is no edge Node yet: label one with node-role.kubernetes.io/edge.")
    shown = [state for state in STATES if states.get(state)]
    parts, left = [], 0.0
    for state in shown:
        width = BAR_UNITS * states[state] / count
        parts.append(tag("rect", x=f"{left:.2f}", y=0, width=f"{width:.2f}", height=10, class_=f"fill {state}"))
        left += width
    strip = tag("svg", parts, viewbox=f"0 0 {BAR_UNITS} 10", preserveaspectratio="none", aria_hidden="true")
    legend = [
        tag("li", tag("a", badge(state), " ", number(states[state]), href=f"{HOME}nodes?state={state}"))
        for state in shown
    ]
    return tag("div", strip, tag("ul", legend, class_="legend"), class_="strip")


def attention(snapshot: Snapshot) -> Html:
    """What does not end by itself: causes of parked objects, and nodes that wait for a person."""
    rows = [_group_row(group) for group in snapshot.groups[:GROUPS_SHOWN]]
    waiting = [line for line in snapshot.lines.values() if line.state in NEEDS_A_PERSON and line.state != "parked"]
    parts: list[object] = []
    if rows:
        head = (("Why", ""), ("Kind", ""), ("Objects", "n"), ("Nodes", "n"), ("For example", "wide"))
        parts.append(table("What is parked, by cause", head, rows))
    if waiting:
        shown = [(node_link(line.name), badge(line.state), line.note) for line in waiting[:GROUPS_SHOWN]]
        parts.append(table("Nodes that wait for a person", (("Node", ""), ("State", ""), ("Why", "wide")), shown))
    if snapshot.kept:
        parts.append(
            tag("p", f"{number(snapshot.kept)} objects are kept although they are to be deleted.", class_="hint")
        )
    more = tag("a", "All parked objects", href=f"{HOME}parked") if rows else None
    return panel("attention", "Needs attention", parts or nothing("Nothing waits for a person."), hint=more)


def _group_row(group: ParkedGroup) -> tuple[object, ...]:
    code = tag("code", group.code)
    return code, group.kind, number(group.objects), number(group.nodes), group.example


def parked(snapshot: Snapshot) -> Html:
    """Every parked object, as far as the page goes."""
    rows = [
        (
            explain_link(each.node, each.key),
            node_link(each.node),
            tag("code", each.code),
            each.reason,
            number(each.retries),
            moment(each.next_retry),
        )
        for each in snapshot.parked_objects
    ]
    if not rows:
        known = nothing("Nothing is parked at a connected node.")
        return panel("parked", "Parked objects", known)
    head = (("Object", ""), ("Node", ""), ("Code", ""), ("Why", "wide"), ("Retries", "n"), ("Tried again", ""))
    left = snapshot.parked - len(rows)
    hint = f"the first {len(rows)} of {number(snapshot.parked)}" if left > 0 else None
    return panel("parked", "Parked objects", table("Parked objects", head, rows), hint=hint)


def queues(snapshot: Snapshot) -> Html:
    """Both directions, the most urgent first."""
    down = [(q.priority, number(q.length), number(q.nodes)) for q in snapshot.to_nodes]
    up = [_up_row(queue) for queue in snapshot.from_nodes]
    down_head = (("Priority", "n"), ("Objects", "n"), ("Nodes", "n"))
    up_head = (
        ("Priority", "n"),
        ("Messages", "n"),
        ("Size", "n"),
        ("Oldest", "n"),
        ("Nodes", "n"),
        ("Stalled", "wide"),
    )
    return tag(
        "div",
        panel(
            "to-nodes",
            "Objects to nodes",
            table("Objects that wait to be sent, by priority", down_head, down)
            if down
            else nothing("None waits to be sent."),
            tag("p", f"{number(snapshot.in_flight)} sent, no answer yet", class_="hint")
            if snapshot.in_flight
            else None,
            tag("p", f"{number(snapshot.backoff)} wait to be tried again", class_="hint") if snapshot.backoff else None,
            hint="queued, by priority; 0 is sent first",
        ),
        panel(
            "from-nodes",
            "Messages at nodes",
            table("Messages stored at connected nodes, by priority", up_head, up) if up else nothing("Nothing waits."),
            hint="stored at connected nodes, by priority",
        ),
        id="queues",
        class_="pair",
    )


def _up_row(queue: Queue) -> tuple[object, ...]:
    stalled = join(tag("span", f"{number(queue.stalled)} nodes", class_="warn"), " ", queue.stalled_by)
    return (
        queue.priority,
        number(queue.length),
        size(queue.bytes),
        _age(queue.oldest_seconds),
        number(queue.nodes),
        stalled if queue.stalled else "–",
    )


def topics(seen: TopicsSeen) -> Html:
    """Rates, and how far readers are behind: of an ingest job that is how fresh its table is."""
    if not seen.is_configured:
        hint = nothing("No messaging service is configured (messaging_url).")
        return panel("topics", "Topics", hint)
    rows = []
    for line in seen.lines:
        readers = [
            tag(
                "li",
                reader.name,
                ": ",
                tag("span", f"{reader.seconds:,.0f} s", class_="warn" if reader.seconds > 60 else None),
                f", {number(reader.messages)} messages behind",
            )
            for reader in line.readers
        ]
        rate = f"{line.rate:,.1f}" if line.rate is not None else "…"
        rows.append((line.topic, rate, number(line.passed), tag("ul", readers, class_="plain") if readers else "–"))
    head = (
        ("Topic", ""),
        ("Messages a second", "n"),
        ("Ever stored", "n"),
        ("Readers, and how fresh their tables are", "wide"),
    )
    body: list[object] = [
        table("Topics of the messaging service", head, rows) if rows else nothing("No topic is known yet.")
    ]
    if seen.error:
        body.insert(0, tag("p", "Messaging does not answer: ", seen.error, class_="notice"))
    return panel("topics", "Topics", body, hint=f"{seen.more} more" if seen.more else None)


def event_item(line: EventLine) -> Html:
    """One line of the list of events."""
    return tag(
        "li",
        moment(line.at),
        tag("span", line.type, class_="state parked" if line.is_problem else "state plain"),
        tag("span", node_link(line.node) if line.node else None, class_="who"),
        tag("span", line.subject if line.subject != line.node else "", " ", line.text, class_="what"),
    )


def event_list(lines: Iterable[EventLine], shown: int) -> Html:
    items = [event_item(line) for line in lines]
    return tag("ol", items, id="events", class_="events", data_shown=shown)


# ---- rows of nodes -------------------------------------------------------------------------------

NODE_HEAD = (
    ("Node", ""),
    ("State", ""),
    ("Since", "n"),
    ("On their way", "n"),
    ("Parked", "n"),
    ("Held", "n"),
    ("Agent", "agent"),
)


def node_row(line: NodeLine) -> tuple[object, ...]:
    return (
        node_link(line.name),
        badge(line.state),
        moment(line.since),
        number(line.pending),
        number(line.parked),
        number(line.held),
        line.agent,
    )


LIVE: Mapping[str, Callable[[Snapshot, TopicsSeen, str], Html]] = {
    "notices": lambda snapshot, seen, role: notices(snapshot, role),
    "totals": lambda snapshot, seen, role: totals(snapshot, seen),
    "attention": lambda snapshot, seen, role: attention(snapshot),
    "parked": lambda snapshot, seen, role: parked(snapshot),
    "queues": lambda snapshot, seen, role: queues(snapshot),
    "topics": lambda snapshot, seen, role: topics(seen),
}
"""Sections by id, as they are sent to open pages."""
