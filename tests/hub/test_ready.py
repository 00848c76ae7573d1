"""The one way out of the core: what is in a ``Ready``, when, and in which order."""

import pytest
from tests.support.hubs.hub_core import CONFIG_MAPS, Core

from fairlead_hub.status.status_cache import StatusDocument


@pytest.fixture
def core():
    return Core("edge-1", messaging_url="http://127.0.0.1:9").rule(CONFIG_MAPS)


def states(ready):
    """What the documents say of objects."""
    found = [
        write.wanted.status(write.observed) for write in ready.documents if isinstance(write.wanted, StatusDocument)
    ]
    return [status["state"] for status in found if "state" in status]


def test_a_change_is_frames_first_and_status_after_the_acknowledgement(core):
    """Ack before record: what is sent now is in no document of the same ``Ready``."""
    edge = core.opened()
    core.put("a")
    ready = core.take_ready()
    [output] = ready.sessions
    assert output.session is edge.ref and states(ready) == []
    [(update, _)] = output.frames
    assert states(core.take_ready()) == []
    edge.receive(edge.acknowledgement(update))
    ready = core.take_ready()
    assert ready.sessions == [] and states(ready) == ["Synced"]


def test_what_the_shell_has_no_time_for_waits_and_the_newest_wins(core):
    """A document is given out once, and again only when it was not written."""
    one = core.put("a")
    edge = core.served()
    assert core.take_ready(documents=False).documents == []
    core.put("a", version="2", data={"v": "2"})
    edge.ack(*edge.sent())
    [write] = [each for each in core.take_ready().documents if each.wanted.name[2].endswith(one.uid)]
    assert write.wanted.status(None)["objectResourceVersion"] == "2"
    assert core.take_ready().documents == []
    core.hub.documents.unwritten(write.wanted, core.now)
    assert [each.wanted for each in core.take_ready().documents] == [write.wanted]


def test_the_shell_is_notified_once_until_it_takes(core):
    """However many changes there were: it then takes them together."""
    heard = []
    core.settle()
    core.hub.subscribe(lambda: heard.append(len(core.hub.open_sessions.by_node)))
    core.put("a")
    assert heard == [], "it concerns no session"
    edge = core.hub.sessions.open("edge-1", core.hello("edge-1"), core.now)
    core.put("b")
    core.put("c")
    assert heard == [1]
    assert [output.session for output in core.take_ready().sessions] == [edge]
    core.put("d")
    assert heard == [1, 1]


def test_events_are_handed_out_once(core):
    """CloudEvents in the order in which things happened; Kubernetes Events when the shell has time for them."""
    edge = core.connect()
    core.put("a")
    [update] = edge.sent()
    edge.nack(update)
    assert [each.type for each in core.take_cloud_events()] == ["node.connected", "object.parked"]
    assert core.take_ready(kube_events=False).kube_events == []
    assert [each.reason for each in core.take_ready().kube_events] == ["Parked"]
    ready = core.take_ready()
    assert ready.kube_events == [] == ready.cloud_events
