"""Events about records: counted when they repeat, bounded when they flood."""

import pytest

from fairlead_hub.events import kube_events
from fairlead_hub.events.kube_events import KubeEvents, Regarding

ABOUT = Regarding(kind="ObjectSync", namespace="shop", name="edge-1.u")


def note(noted, *, about=ABOUT, reason="Parked", message="no room", now=0.0):
    noted.note(about, "Warning", reason, message, now, f"t{now:g}")


@pytest.fixture
def noted():
    return KubeEvents()


def test_a_new_happening_is_taken_once(noted):
    """Then it waits for the next time."""
    note(noted)
    [one] = noted.take()
    assert (one.count, one.first, one.last, one.created) == (1, "t0", "t0", False)
    assert noted.take() == []


def test_the_same_again_is_counted(noted):
    """One Event with a count, the newest message and both times."""
    note(noted, now=0.0)
    [first] = noted.take()
    first.created = True
    note(noted, message="still no room", now=5.0)
    note(noted, message="still no room", now=9.0)
    [again] = noted.take()
    assert again is first
    assert (again.count, again.first, again.last, again.message) == (3, "t0", "t9", "still no room")


@pytest.mark.parametrize(
    "other", [{"reason": "Unparked"}, {"about": Regarding(kind="EdgeNode", namespace="", name="e")}]
)
def test_another_reason_or_another_object_is_another_event(noted, other):
    """Only the same about the same is counted."""
    note(noted)
    note(noted, **other)
    assert len({each.name for each in noted.take()}) == 2


def test_after_the_window_it_is_a_new_event(noted):
    """Kubernetes forgets Events after an hour: a count must not refer to one that is gone."""
    note(noted, now=0.0)
    [first] = noted.take()
    note(noted, now=kube_events.WINDOW_SECONDS)
    [second] = noted.take()
    assert second.count == 1 and second.name != first.name


def test_a_flood_is_dropped_and_counted(noted):
    """Events are hints; records are the truth."""
    for n in range(kube_events.PENDING_MAX + 7):
        note(noted, about=Regarding(kind="ObjectSync", namespace="shop", name=f"r{n}"))
    assert len(noted.take()) == kube_events.PENDING_MAX
    assert noted.dropped == 7
    note(noted)
    assert len(noted.take()) == 1, "there is room again"


def test_memory_is_bounded(noted):
    """The oldest is forgotten first, and is a new one when it comes again."""
    note(noted)
    noted.take()
    for n in range(kube_events.KEPT_MAX):
        note(noted, about=Regarding(kind="ObjectSync", namespace="shop", name=f"r{n}"))
        noted.take()
    note(noted)
    [again] = noted.take()
    assert again.count == 1


def test_the_event_names_the_record(noted):
    """In the record's namespace, with who says it."""
    note(noted, message="x" * 5000)
    [one] = noted.take()
    body = kube_events.body(one, "hub-1")
    assert (body["kind"], body["metadata"]["namespace"], body["type"], body["reason"]) == (
        "Event", "shop", "Warning", "Parked",
    )  # fmt: skip
    assert body["involvedObject"] == {
        "apiVersion": "fairlead.dev/v1alpha1", "kind": "ObjectSync", "name": "edge-1.u", "namespace": "shop",
    }  # fmt: skip
    assert body["source"] == {"component": "fairlead-hub", "host": "hub-1"}
    assert len(body["message"]) == 1024, "the API server takes no more"


def test_events_about_cluster_scoped_objects_live_in_default(noted):
    """Where kubectl looks for them."""
    note(noted, about=Regarding(kind="EdgeNode", namespace="", name="edge-1"))
    body = kube_events.body(noted.take()[0], "hub-1")
    assert body["metadata"]["namespace"] == "default"
    assert "namespace" not in body["involvedObject"]


def test_names_fit_kubernetes_however_long_the_records_is(noted):
    """A name may have 253 characters."""
    note(noted, about=Regarding(kind="ObjectSync", namespace="shop", name="n" * 253), now=1e9)
    assert len(noted.take()[0].name) <= 253
