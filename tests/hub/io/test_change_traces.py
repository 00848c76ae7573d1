"""The trace of a change on its way down: what is begun, what ends it, and that all of it is bounded."""

from __future__ import annotations

import msgspec
import pytest
from tests.support.hubs.hub_core import CONFIG_MAPS, Core
from tests.support.spans import KeptSpans, spans_in_memory

from fairlead_hub.cluster.content import LiveObject
from fairlead_hub.io import change_traces
from fairlead_hub.io.change_traces import ChangeTraces
from fairlead_hub.session_ref import SessionRef
from fairlead_wire import message

RECORDS = "objectsyncs"


class Bench:
    """One change that was observed, and two sessions it may go to."""

    def __init__(self, *, ratio: float = 1.0) -> None:
        spans, self.kept = spans_in_memory(ratio=ratio)
        self.traces = ChangeTraces(spans)
        core = Core("edge-1", "edge-2").rule(CONFIG_MAPS)
        core.put("a", data={"k": "1"})
        live = core.hub.object_cache.get("configmaps/shop/a")
        assert live is not None
        self.live: LiveObject = live
        self.session: SessionRef = core.connect("edge-1").ref
        self.other: SessionRef = core.connect("edge-2").ref

    def update(self, id: int, session: SessionRef | None = None, *, version: str = "") -> message.Update:
        """The header as it leaves."""
        live = self.live
        header = message.Update(
            id=id, resource=live.path, uid=live.uid, resource_version=version or live.version, digest=live.digest
        )
        left, content = self.traces.leaving(session or self.session, (header, b"content"))
        assert isinstance(left, message.Update) and content == b"content"
        assert msgspec.structs.replace(left, traceparent=None) == header
        return left

    def names(self) -> list[tuple[str, str | None]]:
        return [(span.name, span.failure) for span in self.kept.kept]


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.traces.observed(made.live, None)
    return made


def test_a_change_is_followed_from_the_watch_to_the_record(bench: Bench) -> None:
    header = bench.update(1)
    assert header.traceparent == str(bench.kept.kept[1].trace)
    bench.traces.recorded((RECORDS, "shop", f"edge-1.{bench.live.uid}"))
    assert bench.names() == [("observe", ""), ("deliver", None)], "what is not acknowledged is not recorded"
    bench.traces.answered(bench.session, message.Ack(parent_id=1))
    for _ in range(2):
        bench.traces.recorded((RECORDS, "shop", f"edge-1.{bench.live.uid}"))
    assert bench.names() == [("observe", ""), ("deliver", ""), ("record", "")]
    observe, deliver, record = bench.kept.kept
    assert (deliver.parent, record.parent) == (observe.trace, deliver.trace)
    assert deliver.attributes == {"fairlead.node": "edge-1", "fairlead.resource": bench.live.path}


def test_each_node_has_a_span_of_its_own_and_a_cumulative_ack_ends_the_earlier(bench: Bench) -> None:
    for id in (1, 2, 5):
        bench.update(id)
    bench.update(1, bench.other)
    bench.traces.answered(bench.session, message.Ack(parent_id=3, cumulative=True))
    assert [span.failure for span in bench.kept.kept[1:]] == ["", "", None, None]
    bench.traces.answered(bench.session, message.Nack(parent_id=5, code="store_full", reason="full"))
    bench.traces.answered(bench.session, message.Nack(parent_id=5, code="store_full", reason="again"))
    bench.traces.closed(bench.other)
    bench.traces.closed(bench.other)
    assert [span.failure for span in bench.kept.kept[3:]] == ["store_full", "session_ended"]


def test_the_same_content_again_is_no_change(bench: Bench) -> None:
    bench.traces.observed(bench.live, bench.live)
    assert bench.names() == [("observe", "")]


def test_another_version_of_the_object_is_not_traced(bench: Bench) -> None:
    assert bench.update(1, version="99").traceparent is None
    delete = message.Delete(id=2, resource=bench.live.path, uid=bench.live.uid)
    assert bench.traces.leaving(bench.session, (delete, b"")) == (delete, b"")


def test_what_is_not_sampled_changes_no_frame() -> None:
    bench = Bench(ratio=0.0)
    bench.traces.observed(bench.live, None)
    assert bench.update(1).traceparent is None
    bench.traces.answered(bench.session, message.Ack(parent_id=1))
    assert bench.kept.kept == []


def test_what_is_kept_is_bounded(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest change is forgotten; of deliveries no more are begun."""
    monkeypatch.setattr(change_traces, "DELIVERIES_MAX", 2)
    assert [bench.update(id).traceparent is not None for id in (1, 2, 3)] == [True, True, False]
    bench.traces.answered(bench.session, message.Ack(parent_id=1))
    assert bench.update(4).traceparent is not None
    monkeypatch.setattr(change_traces, "CHANGES_MAX", 1)
    bench.traces.observed(msgspec.structs.replace(bench.live, uid="other"), None)
    bench.traces.closed(bench.session)
    assert bench.update(5).traceparent is None
    kept: KeptSpans = bench.kept
    assert all(span.failure is not None for span in kept.kept)
