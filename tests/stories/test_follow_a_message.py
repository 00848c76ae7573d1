"""One message is followed from the device to its row, every party the real program (docs/howto/follow-a-message.md)."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.edges.edge_line import telemetry
from tests.support.otlp import Collector
from tests.support.processes import wait_until
from tests.support.whole_line import TOPIC, WholeLine

from fairlead_wire.io.settings import ROOMS
from fairlead_wire.traces import trace

TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
PUBLISH = "publish [fairlead-edge]"
BATCH = f"{PUBLISH} > upstream batch [fairlead-edge]"
HUB = f"{BATCH} > upstream batch [fairlead-hub]"
# Not how often each: a batch that the hub could not take yet goes again.
PATHS = {PUBLISH, BATCH, HUB, f"{HUB} > store [fairlead-messaging]", f"{PUBLISH} > ingest batch [fairlead-ingest]"}
OBSERVE = "observe [fairlead-hub]"
DELIVER = f"{OBSERVE} > deliver [fairlead-hub]"
CHANGE = {OBSERVE, DELIVER, f"{DELIVER} > apply [fairlead-edge]", f"{DELIVER} > record [fairlead-hub]"}
INGEST_SECONDS = 300
SPANS_SECONDS = 120.0


@pytest.mark.kube
@pytest.mark.spark
@pytest.mark.verify
def test_one_trace_leads_from_the_device_to_the_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The producer's own trace, over a restart of the agent; what is not sampled leaves no span.  And before it the
    trace of the change that brought the routes."""
    trace_id = TRACEPARENT.split("-")[1]
    with Collector() as collector:
        for room in ROOMS:
            monkeypatch.setenv(f"FAIRLEAD_{room.upper()}_TRACES_ENDPOINT", collector.url)
        monkeypatch.setenv("FAIRLEAD_HUB_TRACES_RATIO", "1")
        with WholeLine(tmp_path) as line:
            # The routes are an object themselves, the first one that is brought to the device.
            wait_until("the routes are followed", lambda: any(is_followed(collector)), seconds=SPANS_SECONDS)
            line.hub.stop()  # the message waits on the device
            given = publish(line.edge.url, 3, traceparent=TRACEPARENT)
            # What was not sent to the collector yet goes with the process that is killed.
            wait_until("the publish is recorded", lambda: bool(collector.tree(trace_id)), seconds=SPANS_SECONDS)
            line.edge.start_again()
            line.hub.start()
            publish(line.edge.url, 4, traceparent=None)
            wait_until("both messages are in the topic", lambda: len(ours(line)) == 2, seconds=SPANS_SECONDS)
            ingest(tmp_path, line.messaging.url)
            wait_until(
                "the spans arrive",
                lambda: collector.paths(trace_id) >= PATHS,
                seconds=SPANS_SECONDS,
                describe=lambda: "\n".join(collector.tree(trace_id)),
            )
            sampled = [each for each in ours(line) if "traceparent" in each["properties"]]
    print("\n".join(collector.tree(trace_id)))
    assert collector.paths(trace_id) == PATHS
    assert len(sampled) == 1 and sampled[0]["properties"]["traceparent"] == given
    begun = {span.name for span in collector.spans if not span.parent_id}
    assert begun == {"observe"}, "changes begin at the hub; of messages nothing else was recorded"


def is_followed(collector: Collector) -> Iterator[bool]:
    """For each trace: does it lead from a change in the cluster to the device, and to what is written down of it?"""
    for trace_id in {span.trace_id for span in collector.spans}:
        yield collector.paths(trace_id) >= CHANGE


def publish(url: str, priority: int, *, traceparent: str | None) -> str | None:
    """The context with which the answer says that it was stored."""
    content = json.dumps({"messages": [telemetry(priority, {"temp": 1})]}).encode()
    headers = {} if traceparent is None else {trace.TRACEPARENT: traceparent}
    with urllib.request.urlopen(urllib.request.Request(f"{url}/v1/messages", content, headers), timeout=60) as answer:
        found: str | None = answer.headers[trace.TRACEPARENT]
        return found


def ours(line: WholeLine) -> list[dict[str, dict[str, str]]]:
    """Without the message by which the line found out that routes had arrived."""
    return [each for each in line.in_topic() if "p" in each["properties"]]


def ingest(folder: Path, messaging_url: str) -> None:
    config = folder / "ingest.toml"
    config.write_text(
        f'messaging_url = "{messaging_url}"\nsecurity = "insecure"\ntopics = ["{TOPIC}"]\n'
        f'table = "{folder}/rows"\ncheckpoint = "{folder}/checkpoint"\ntrigger = "available-now"\n'
        f'[spark]\nmaster = "local[1]"\n'
    )
    command = [sys.executable, "-m", "fairlead_cli.main", "ingest", "run", "--config", str(config)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=INGEST_SECONDS, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
