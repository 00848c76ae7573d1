"""The parts of pages that are updated live: each is one element with an id, sent whole when it changes.

Sections contain points in time, not ages: a section changes on an event, not because a second passed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from urllib.parse import quote, urlencode

from fairlead_hub.console.html import Html, join, tag
from fairlead_hub.console.lines import NEEDS_ATTENTION, STATES, EventLine, NodeLine, ReaderLag, TopicsSeen
from fairlead_hub.console.snapshot import ConsoleSnapshot, ParkedGroup, PriorityQueues, RefusedRoutes, UnreadableRule
from fairlead_hub.wall_clock import WallClock
from fairlead_wire import durations
from fairlead_wire.objects import resource
from fairlead_wire.validation.route_manifest import priority_shown

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
    """A point in time; the script shows its age."""
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
    return tag("a", resource.shown(key), href=f"{HOME}explain?{query}")


def badge(state: str) -> Html:
    return tag("span", STATES.get(state, state), class_=f"state {state if state in STATES else 'away'}")


def table(
    caption: str, head: Iterable[tuple[str, str]], rows: Iterable[Iterable[object]], **attributes: object
) -> Html:
    """``head``: title and class of each column.  The first cell of a row is its header."""
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
    """The filter of a page: a search field, further ``fields``, and the number of rows found."""
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


def notices(snapshot: ConsoleSnapshot, role: str) -> Html:
    """Problems of the hub itself; empty if there are none."""
    found = [f"This hub {role}: what is shown here may be incomplete."] if role else []
    found += snapshot.notices
    return tag("div", [tag("p", each, class_="notice") for each in found], id="notices", role="status")


def totals(snapshot: ConsoleSnapshot, topics: TopicsSeen) -> Html:
    """The states of all nodes in one bar, and the most important numbers."""
    count, states = len(snapshot.lines), snapshot.states
    connected = count - states.get("away", 0) - states.get("never", 0) - states.get("refused", 0)
    queued = sum(queue.length for queue in snapshot.from_nodes)
    oldest = max((queue.oldest_seconds for queue in snapshot.from_nodes), default=0)
    cards = [
        _card("Nodes connected", number(connected), f"of {number(count)}", f"{HOME}nodes"),
        _card("Objects pending", number(snapshot.pending), "to connected nodes", f"{HOME}nodes?state=behind"),
        _card(
            "Objects parked",
            number(snapshot.parked),
            "retries used up" if snapshot.parked else "none",
            f"{HOME}parked",
            bad=bool(snapshot.parked),
        ),
        _card("Messages at nodes", number(queued), f"oldest {_age(oldest)}" if queued else "none", f"{HOME}queues"),
    ]
    rates = [line.rate for line in topics.lines if line.rate is not None]
    if topics.is_configured:
        cards.append(_card("Messages/s", f"{sum(rates):,.1f}" if rates else "–", "all topics", f"{HOME}topics"))
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
    """All nodes by state as one strip; the legend beside it gives the numbers."""
    if not count:
        return nothing("No edge nodes yet: label a Node with node-role.kubernetes.io/edge.")
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


def attention(snapshot: ConsoleSnapshot, topics: TopicsSeen) -> Html:
    """Everything that does not resolve itself; each row links to the page that explains it."""
    parts: list[object] = []

    def add(caption: str, head: Iterable[tuple[str, str]], rows: list[tuple[object, ...]], href: str) -> None:
        if rows:
            parts.append(table(caption, head, rows[:GROUPS_SHOWN]))
        if (more := len(rows) - GROUPS_SHOWN) > 0:
            parts.append(tag("p", tag("a", f"{number(more)} more", href=href), class_="hint"))

    add("Rules that cannot be read", RULE_HEAD, list(map(_rule_row, snapshot.rules)), f"{HOME}nodes")
    add("Routes that nodes refuse", ROUTES_HEAD, list(map(_routes_row, snapshot.routes)), f"{HOME}nodes")
    add("Parked objects, by cause", PARKED_HEAD, list(map(_group_row, snapshot.groups)), f"{HOME}parked")
    lines = snapshot.lines.values()
    stopped = [line for line in lines if line.state in NEEDS_ATTENTION and line.state != "parked"]
    rows: list[tuple[object, ...]] = [(node_link(line.name), badge(line.state), line.note) for line in stopped]
    add("Nodes that need attention", (("Node", ""), ("State", ""), ("Why", "wide")), rows, f"{HOME}nodes")
    dead = sorted((line for line in lines if line.dead_letters), key=lambda line: (-line.dead_letters, line.name))
    command = tag("code", "fairlead edge deadletters list")
    rows = [(node_link(line.name), number(line.dead_letters), command) for line in dead]
    add("Dead letters at nodes", (("Node", ""), ("Messages", "n"), ("On the node", "wide")), rows, f"{HOME}nodes")
    behind = [(line.topic, each) for line in topics.lines for each in line.readers if each.is_lagging]
    add("Consumers that lag", READER_HEAD, [_reader_row(*each) for each in behind], f"{HOME}topics")
    if snapshot.unjudged:
        unjudged = (
            f"{number(snapshot.unjudged)} objects on nodes cannot be judged, and stay as they are"
            f" ({snapshot.unjudged_why}): nothing is to be deleted by hand."
        )
        parts.append(tag("p", unjudged, class_="hint"))
    if snapshot.kept > snapshot.unjudged:
        unwanted = number(snapshot.kept - snapshot.unjudged)
        kept = f"{unwanted} objects are kept on nodes although they are no longer wanted."
        parts.append(tag("p", kept, class_="hint"))
    more = tag("a", "All parked objects", href=f"{HOME}parked") if snapshot.groups else None
    return panel("attention", "Needs attention", parts or nothing("Nothing needs attention."), hint=more)


RULE_HEAD = (("Rule", ""), ("Why", "wide"), ("Consequence", "wide"))
ROUTES_HEAD = (("Routes", ""), ("Nodes", "n"), ("First error", "wide"))
PARKED_HEAD = (("Why", ""), ("Kind", ""), ("Objects", "n"), ("Nodes", "n"), ("Example", "wide"))
READER_HEAD = (("Consumer", ""), ("Topic", ""), ("Messages", "n"), ("Oldest unread", ""), ("Last position", ""))


def _rule_row(rule: UnreadableRule) -> tuple[object, ...]:
    """The nodes that the rule concerns show its name in their note."""
    href = f"{HOME}nodes?{urlencode({'q': rule.name})}"
    return tag("a", f"{rule.kind} {rule.name}", href=href), rule.reason, rule.consequence


def _routes_row(routes: RefusedRoutes) -> tuple[object, ...]:
    return explain_link(routes.example, f"edgeroutes//{routes.name}"), number(routes.nodes), routes.error


def _reader_row(topic: str, reader: ReaderLag) -> tuple[object, ...]:
    link = tag("a", reader.name, href=f"{HOME}topics")
    return link, topic, number(reader.messages), moment(reader.since), moment(reader.updated)


def _group_row(group: ParkedGroup) -> tuple[object, ...]:
    code = tag("code", group.code)
    return code, group.kind, number(group.objects), number(group.nodes), group.example


def parked(snapshot: ConsoleSnapshot) -> Html:
    """Parked objects, up to the limit of the page."""
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
        return panel("parked", "Parked objects", nothing("No connected node has parked objects."))
    head = (("Object", ""), ("Node", ""), ("Code", ""), ("Why", "wide"), ("Retries", "n"), ("Next retry", ""))
    left = snapshot.parked - len(rows)
    hint = f"the first {len(rows)} of {number(snapshot.parked)}" if left > 0 else None
    return panel("parked", "Parked objects", table("Parked objects", head, rows), hint=hint)


def queues(snapshot: ConsoleSnapshot) -> Html:
    """Queues in both directions, most urgent first."""
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
            table("Objects to send, by priority", down_head, down) if down else nothing("The queue is empty."),
            tag("p", f"{number(snapshot.in_flight)} sent, not acknowledged yet", class_="hint")
            if snapshot.in_flight
            else None,
            tag("p", f"{number(snapshot.backoff)} waiting for a retry", class_="hint") if snapshot.backoff else None,
            hint="queued, by priority; 0 is sent first",
        ),
        panel(
            "from-nodes",
            "Messages at nodes",
            table("Messages stored at connected nodes, by priority", up_head, up)
            if up
            else nothing("The queues are empty."),
            hint="stored at connected nodes, by priority",
        ),
        id="queues",
        class_="pair",
    )


def _up_row(queue: PriorityQueues) -> tuple[object, ...]:
    stalled = join(tag("span", f"{number(queue.stalled)} nodes", class_="warn"), " ", queue.stalled_by)
    return (
        priority_shown(queue.priority),
        number(queue.length),
        size(queue.bytes),
        _age(queue.oldest_seconds),
        number(queue.nodes),
        stalled if queue.stalled else "–",
    )


def topics(seen: TopicsSeen) -> Html:
    """Rates, and how far readers are behind.  For an ingest job that is how fresh its table is."""
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
                tag("span", durations.span(reader.seconds), class_="warn" if reader.is_lagging else None),
                f", {number(reader.messages)} messages behind",
            )
            for reader in line.readers
        ]
        rate = f"{line.rate:,.1f}" if line.rate is not None else "…"
        rows.append((line.topic, rate, number(line.passed), tag("ul", readers, class_="plain") if readers else "–"))
    head = (
        ("Topic", ""),
        ("Messages/s", "n"),
        ("Total stored", "n"),
        ("Consumers and table freshness", "wide"),
    )
    body: list[object] = [table("Topics of the messaging service", head, rows) if rows else nothing("No topics yet.")]
    if seen.error:
        body.insert(0, tag("p", "Messaging does not answer: ", seen.error, class_="notice"))
    return panel("topics", "Topics", body, hint=f"{seen.more} more" if seen.more else None)


def event_item(line: EventLine) -> Html:
    """An entry of the list of events."""
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
    ("Pending", "n"),
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


LIVE: Mapping[str, Callable[[ConsoleSnapshot, TopicsSeen, str], Html]] = {
    "notices": lambda snapshot, seen, role: notices(snapshot, role),
    "totals": lambda snapshot, seen, role: totals(snapshot, seen),
    "attention": lambda snapshot, seen, role: attention(snapshot, seen),
    "parked": lambda snapshot, seen, role: parked(snapshot),
    "queues": lambda snapshot, seen, role: queues(snapshot),
    "topics": lambda snapshot, seen, role: topics(seen),
}
"""Sections by id, as sent to open pages."""
