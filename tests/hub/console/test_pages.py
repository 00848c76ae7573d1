"""Whole documents: complete without script, and escaped throughout."""

import html.parser
import re

import msgspec
import pytest
from tests.support.hubs.console import TOPICS, fleet, surveyed
from tests.support.hubs.hub_core import CONFIG_MAPS, Core
from tests.support.hubs.live import SECRET

from fairlead_hub.console import pages
from fairlead_hub.console.lines import EventLog, node_line
from fairlead_hub.console.pages import PageContext
from fairlead_wire import message
from fairlead_wire.event import Event

HOSTILE = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>\u202e"
PLANTED = "hunter2-planted-secret"


def view(core):
    return PageContext(surveyed(core)[0], TOPICS, "", "run-0", "v1")


def every_page(core, name, events=()):
    seen = view(core)
    log = EventLog()
    log.add(events)
    detail = core.hub.view.node(name, core.now) or {}
    edge = core.hub.node_status.edges.get(name)
    given = {"node": name, "kind": "secret", "namespace": "shop", "name": "a"}
    answer = core.hub.view.explained(name, "secret", "shop", "a", core.now)
    yield pages.overview(seen, log.newest())
    yield pages.nodes(seen, HOSTILE, "", 0)
    yield pages.nodes(seen, "", "sync", 0)
    yield pages.parked(seen)
    yield pages.queues(seen)
    yield pages.topics(seen)
    yield pages.events(seen, log.newest())
    line = node_line(core.hub.view, name, core.hub.view.session(name))
    yield pages.node(seen, line, {**detail, "queues": list(edge.queues) if edge else []})
    yield pages.explain(seen, given, answer)
    yield pages.problem(seen, 404, f"There is no {HOSTILE}")
    yield pages.plain(HOSTILE)


class Reader(html.parser.HTMLParser):
    """Which elements and attributes there are."""

    def __init__(self):
        super().__init__()
        self.tags, self.attributes, self.ids, self.text = [], set(), [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        self.ids += [value for name, value in attrs if name == "id"]

    def handle_data(self, data):
        self.text.append(data)


def read(page):
    reader = Reader()
    reader.feed(page)
    return reader


def test_hostile_names_reasons_and_events_stay_text():
    """Whatever an edge, a user or an annotation says."""
    core = Core(HOSTILE).rule(CONFIG_MAPS)
    core.put("a")
    edge = core.connect(HOSTILE, agent=HOSTILE)
    edge.nack(edge.sent()[0], code=HOSTILE, reason=HOSTILE)
    queue = message.QueueStatus(endpoint=HOSTILE, priority=1, length=1, bytes=1, oldest_age_seconds=1.0,
                                stalled_seconds=1.0, stalled_by=HOSTILE)  # fmt: skip
    edge.say(message.Status(), msgspec.json.encode(message.EdgeStatus(held=0, queues=[queue])))
    core.annotate(HOSTILE, paused=HOSTILE)
    events = [Event(type=HOSTILE, time=HOSTILE, node=HOSTILE, subject=HOSTILE, data={"message": HOSTILE})]
    for page in every_page(core, HOSTILE, events):
        found = read(page)
        assert found.tags.count("script") <= 1 and not re.search(r"<script(?! src=)", page)
        assert "onerror" not in found.attributes and "style" not in found.attributes
        assert "\u202e" not in page
        assert all(src.startswith("data:") for src in re.findall(r'<img src="([^"]*)', page))


def test_no_secret_is_in_any_page():
    """Neither what it holds, nor what kubectl copies of it into an annotation, nor a digest that could be guessed."""
    core = Core("edge-1").rule({"apiVersion": "v1", "kind": "Secret"})
    copied = {"kubectl.kubernetes.io/last-applied-configuration": PLANTED}
    one = core.put("a", SECRET, namespace="shop", data={"password": PLANTED}, annotations=copied)
    edge = core.connect()
    [sent] = edge.sent()
    for answer in (None, edge.nack, edge.ack):
        if answer:
            answer(sent)
        for page in every_page(core, "edge-1"):
            assert PLANTED not in page and one.digest not in page


def test_ids_are_unique_and_landmarks_are_there():
    """On every page; one heading of the first order, a language, a title."""
    core = fleet(130)
    for page in [*every_page(core, sorted(core.hub.placement.rules.nodes)[0])][:-1]:
        found = read(page)
        assert len(found.ids) == len(set(found.ids)) and found.tags.count("h1") == 1
        assert {"header", "nav", "main", "footer", "title"} <= set(found.tags) and '<html lang="en">' in page


@pytest.mark.slow
def test_nodes_are_filtered_and_paged_without_script():
    """Each word somewhere; a page beyond the last is the last."""
    core = fleet(260)
    seen = view(core)
    assert "260 of 260 nodes" in pages.nodes(seen, "", "", 0) and "page 1 of 3" in pages.nodes(seen, "", "", 0)
    assert "page 3 of 3" in pages.nodes(seen, "", "", 99)
    assert "1 of 260 nodes" in pages.nodes(seen, "ULM 0026", "", 0)
    assert "0 of 260 nodes" in pages.nodes(seen, "", "nonsense", 0)
    assert "q=store&amp;state=sync&amp;page=1" in pages.nodes(seen, "store", "sync", 0)


@pytest.mark.parametrize("name", ["a", "missing"])
def test_explain_shows_the_sentence(name):
    """The same as `fairlead explain`."""
    core = Core("edge-1").rule(CONFIG_MAPS)
    core.put("a")
    answer = core.hub.view.explained("edge-1", "configmap", "shop", name, core.now)
    given = {"node": "edge-1", "kind": "configmap", "namespace": "shop", "name": name}
    page = pages.explain(view(core), given, answer)
    assert answer["code"] in page and f'value="{name}"' in page
    assert answer["answer"] in "".join(read(page).text)


def test_a_hub_that_waits_says_so():
    """Instead of showing an empty fleet as if it were true."""
    page = pages.overview(view(Core())._replace(role="is starting, or waiting for the Lease"), [])
    assert "This hub is starting, or waiting for the Lease" in page and "No edge nodes yet" in page
