"""Explains why an object is at a node or not: one pure function, from facts to a step.

    Facts ─explain─▶ Step(code, text)        Delivery ─step─▶ Step, of what is on its way

A step has a code for programs and a sentence for people.  Both are derived here from the facts, and the sentence is
never parsed.  ``HubView`` collects the facts.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Sequence
from typing import Literal, NamedTuple

import msgspec

from fairlead_hub.cluster import deletion_blocked
from fairlead_hub.cluster.content import LiveObject
from fairlead_hub.delivery import key_state
from fairlead_hub.delivery.delivery_events import Parked
from fairlead_hub.delivery.key_state import Cause, Withheld
from fairlead_wire import durations
from fairlead_wire.objects.api_group import APPROVE_IDENTITY, PAUSED, no_edge_node

ROUTES_MAX = 100
"""Routes in force named in one sentence."""
NOTES_MAX = 5
"""Reasons given in one sentence."""
SIMILAR_OF_MAX = 10_000
"""Names searched for one that may have been meant."""
KIND_NEAR = 0.7
"""How similar the name of a kind must be to be suggested (difflib's ratio)."""
Code = Literal[
    "no_node",
    "no_object",
    "not_watched",
    "not_listed",
    "not_selected",
    "unreadable",
    "away",
    "identity_held",
    "identity_revoked",
    "waiting",
    "comparing",
    "queued",
    "in_flight",
    "parked",
    "paused",
    "withheld",
    "deletion_guard",
    "kept",
    "held",
    "refused",
    "not_wanted",
]


class Step(NamedTuple):
    """How far an object is on its way to a node, or why it is not: ``code`` for programs, ``text`` for people."""

    code: Code
    text: str


# ---- facts ---------------------------------------------------------------------------------------


class InTransit(msgspec.Struct, frozen=True, kw_only=True):
    """How far a key is on its way to a node that has a session."""

    not_synced: str
    """Why the comparison with the node's store has not begun; empty if it has."""
    is_compared: bool
    is_held: bool
    state: key_state.State
    seconds: float
    """Seconds since it became pending or was stopped."""
    guard: str
    """The deletion guard's explanation, while it stops deletions of this node."""
    now: float


class RoutesSaid(msgspec.Struct, frozen=True, kw_only=True):
    """A node's result for the current version of an EdgeRoutes object."""

    is_known: bool
    accepted: tuple[str, ...] = ()
    errors: tuple[tuple[str, str], ...] = ()
    """(route, why)."""


class ExplainFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything an answer depends on."""

    node: str
    is_node: bool
    """Whether there is an edge Node of this name."""
    nodes: Collection[str] = ()
    """The edge nodes, one of which may have been meant."""
    naming: Sequence[str] = ()
    """The SyncRules that name the kind."""
    type: str
    """As requested."""
    key: str | None
    """None if no kind has that name and the node holds nothing of it."""
    kind: str
    """The name of the kind in discovery; empty if discovery does not know it."""
    live: LiveObject | None
    is_desired: bool
    not_synced: str
    """Why it is not known yet what the node should hold; empty if it is known."""
    unlistable: str
    """Why the kind cannot be listed; empty if it can."""
    is_named: bool
    """Whether a SyncRule names the kind, or it is delivered without one."""
    namesakes: Sequence[tuple[str, str]]
    """(namespace, name) of all objects of the kind, if none has the requested name."""
    rules: Sequence[str]
    """Problems of rules that may concern the object."""
    routes_broken: str | None
    """Why EdgeRoutes of this name cannot be read."""
    delivery: InTransit | None
    """None if the node is away or there is no key."""
    last_contact: str
    identity_held: bool
    revoked: str
    """Why its certificates open no session; empty if they do."""
    paused: str
    routes: RoutesSaid | None
    """None if it is not an EdgeRoutes object."""
    named_kinds: Sequence[str] = ()
    """Kinds that are delivered, to suggest one if the requested one is not."""
    behind: str | None = None
    """For a node that is away and Behind by its ObjectSync: the version it holds (empty: nothing)."""


# ---- the answer ----------------------------------------------------------------------------------


def explain(facts: ExplainFacts) -> Step:
    """The step on the path to this node that the object has reached."""
    if not facts.is_node:
        return Step("no_node", no_edge_node(facts.node, facts.nodes))
    if facts.key is None:
        if facts.unlistable:
            return Step("not_listed", facts.unlistable)
        return _not_watched(facts, facts.type)
    delivery = facts.delivery
    is_held = delivery is not None and delivery.is_held
    if facts.live is None and not is_held:
        return _nowhere(facts, facts.key)
    is_settled = not facts.not_synced and (delivery is None or delivery.is_compared)
    if not facts.is_desired and not is_held and is_settled:
        return _unselected(facts, facts.key)
    if delivery is None:
        return _away(facts)
    found = step(delivery)
    if found.code != "held":
        return found
    if facts.routes is not None:
        found = _routes(facts.routes)
    return Step(found.code, f"{found.text}{_also_paused(facts.live)}")


def step(at: InTransit) -> Step:
    """The step of a key that is on its way to a node, or there."""
    if at.not_synced:
        return Step("waiting", f"waiting: {at.not_synced}")
    if not at.is_compared:
        return Step("comparing", "the node's store is being compared")
    match at.state:
        case key_state.InSync():
            return Step("held", "in sync") if at.is_held else Step("not_wanted", "not wanted")
        case key_state.KeyInFlight():
            return Step("in_flight", f"in flight, unacknowledged for {durations.span(at.seconds)}")
        case key_state.BackingOff(due=due, retry=retry):
            return Step("waiting", f"waiting {durations.span(due - at.now)} for retry {retry}")
        case Parked() as parked:
            why = f"parked after {parked.retries} retries ({parked.code}: {parked.reason})"
            return Step("parked", f"{why}; retry in {durations.span(parked.next_retry_at - at.now)}")
        case Withheld() as withheld:
            return _withheld(withheld, at)
    return Step("queued", "queued")


def _withheld(withheld: Withheld, at: InTransit) -> Step:
    why = withheld.why
    match withheld.cause:
        case Cause.PAUSE:
            since = f"paused, waiting for {durations.span(at.seconds)}"
            return Step("paused", f"{since}: {why} (annotation fairlead.dev/paused on its EdgeNode)")
        case Cause.OBJECT_PAUSED:
            return Step(
                "paused", f"paused, waiting for {durations.span(at.seconds)}: {why} (annotation {PAUSED} on the object)"
            )
        case Cause.DELETION_PAUSED:
            text = f"paused, no longer wanted there and not deleted yet: {why} (annotation {PAUSED} on the object)"
            return Step("paused", text)
        case Cause.NOT_GRANTED:
            return Step("withheld", f"withheld: {why}")
        case Cause.DELETION_GUARD:
            return Step("deletion_guard", at.guard or why)
        case Cause.DELETION_BLOCKED:
            return Step("kept", f"kept, not deleted yet: {why}")


def _nowhere(facts: ExplainFacts, key: str) -> Step:
    """The object is not in the cluster: check for a typo or another namespace."""
    if facts.not_synced:
        return Step("no_object", facts.not_synced)
    if facts.unlistable:
        return Step("not_listed", facts.unlistable)
    type, namespace, name = key.split("/", 2)
    if not facts.is_named:
        return _not_watched(facts, facts.kind or type)
    return Step("no_object", nowhere(facts.kind or type, namespace, name, facts.namesakes))


def _not_watched(facts: ExplainFacts, kind: str) -> Step:
    """It is unknown whether the object exists: nothing of its kind is listed."""
    notes = [not_named(kind, facts.named_kinds, ", so it is not watched"), *facts.rules[:NOTES_MAX]]
    return Step("not_watched", facts.not_synced or "; ".join(notes))


def not_named(kind: str, named: Iterable[str], consequence: str = "") -> str:
    """For people: no SyncRule names this kind (or name of a kind); suggest what they may have meant of those named."""
    by_name = {each.lower(): each for each in named}
    asked = kind.lower()
    meant = [] if asked in by_name else difflib.get_close_matches(asked, sorted(by_name), n=1, cutoff=KIND_NEAR)
    text = f"no SyncRule names the kind {kind}{consequence}"
    return f"{text}; did you mean {by_name[meant[0]]}?" if meant else text


def nowhere(kind: str, namespace: str, name: str, others: Iterable[tuple[str, str]]) -> str:
    """For people: there is no such object; suggest what they may have meant among ``others`` (namespace, name)."""
    place = f" in namespace {namespace}" if namespace else ""
    text = f"there is no {kind} {name}{place}"
    others = list(others)
    elsewhere = sorted(other for other, same in others if same == name and other != namespace)
    if elsewhere:
        more = f" ({len(elsewhere)} namespaces have one)" if len(elsewhere) > 1 else ""
        return f"{text}; there is one in namespace {elsewhere[0]}: use -n {elsewhere[0]}{more}"
    names = sorted({other for place, other in others if place == namespace})
    similar = difflib.get_close_matches(name, names[:SIMILAR_OF_MAX], n=1)
    return f"{text}; did you mean {similar[0]}?" if similar else text


def _unselected(facts: ExplainFacts, key: str) -> Step:
    type, _, name = key.split("/", 2)
    back = "; the node is away" if facts.delivery is None else ""
    if type == deletion_blocked.EDGE_ROUTES_TYPE:
        why = facts.routes_broken
        if why is not None:
            return Step("unreadable", f"EdgeRoutes {name} cannot be read: {why}; {deletion_blocked.ROUTES_CONSEQUENCE}")
        why = "is not for this node: its nodeSelector does not select it"
        return Step("not_selected", f"EdgeRoutes {name} {why}{back}")
    notes = [not_selected(facts.naming), *facts.rules[:NOTES_MAX]]
    return Step("not_selected", "; ".join(notes) + back)


def not_selected(naming: Iterable[str]) -> str:
    """For people: no rule selects the object; these SyncRules name its kind."""
    names = list(dict.fromkeys(naming))
    more = f" and {len(names) - NOTES_MAX} more" if len(names) > NOTES_MAX else ""
    listed = f" (its kind is named by {', '.join(names[:NOTES_MAX])}{more})" if names else ""
    return f"no SyncRule selects this object for this node{listed}"


def _away(facts: ExplainFacts) -> Step:
    if facts.revoked:
        return Step("identity_revoked", facts.revoked)
    if facts.identity_held:
        why = "its certificate is from before its Node was recreated"
        return Step("identity_held", f"{why}: {APPROVE_IDENTITY} approves it")
    back = f"; when it is back, nothing is sent while it is paused: {facts.paused}" if facts.paused else ""
    would = "it should hold this" if facts.is_desired else facts.not_synced
    if facts.is_desired and facts.live is not None and (problem := facts.live.problem) is not None:
        would += f", and cannot be given it ({problem.code}: {problem.reason})"
    if facts.is_desired and facts.live is not None and facts.behind is not None:
        held = f"version {facts.behind}" if facts.behind else "nothing of it"
        would += f", and is Behind: it holds {held}, version {facts.live.version} is wanted"
    back += _also_paused(facts.live)
    return Step("away", f"the node is away (last contact: {facts.last_contact or 'never'}); {would}{back}")


def _also_paused(live: LiveObject | None) -> str:
    if live is None or not live.paused:
        return ""
    return f"; the object is paused, its changes and its deletion wait: {live.paused} (annotation {PAUSED} on it)"


def _routes(said: RoutesSaid) -> Step:
    """Being on the node's disk does not mean in force: the node's result decides."""
    if not said.is_known:
        return Step("held", "in sync; the node has not reported yet which of its routes it runs")
    return routes_held(said.accepted, said.errors)


def routes_held(accepted: Sequence[str], errors: Sequence[tuple[str, str]]) -> Step:
    """Which routes of an object are in force at a node that holds it, and which (name, why) are not."""
    runs = f"routes in force: {', '.join(sorted(accepted)[:ROUTES_MAX]) or 'none'}"
    if not errors:
        return Step("held", f"in sync; {runs}")
    first = "; ".join(f"{route or 'manifest'}: {text}" for route, text in errors[:NOTES_MAX])
    return Step("refused", f"the node holds it and refuses {len(errors)}: {first}; {runs}")
