"""Receipts over the whole line: real API server, hub, messaging and agent; a table's reader is noted by a client."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.support.edges.edge_line import ALL_PRIORITIES, telemetry
from tests.support.processes import wait_until
from tests.support.whole_line import TOPIC, WholeLine

from fairlead_cli.main import build
from fairlead_edge.io.client import EdgeClient
from fairlead_messaging.api.requests import TableNote
from fairlead_messaging.client.io.sync_client import BulkClient

pytestmark = [pytest.mark.kube, pytest.mark.verify]
SECONDS = 120.0
KILLS = 3
BATCH = 40
HOWTO = Path(__file__).resolve().parents[4] / "docs" / "howto" / "ask-for-a-receipt.md"


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WholeLine]:
    with WholeLine(tmp_path_factory.mktemp("receipts")) as opened:
        yield opened


class Job:
    """What an ingest job tells messaging: how far its table is."""

    def __init__(self, line: WholeLine) -> None:
        self._client = BulkClient(line.messaging.url)
        self.reached = ""
        self._batch = 0

    def read(self, upto: str = "") -> None:
        """So far, or to the end."""
        plan = self._client.plan(TOPIC, after="")
        self.reached = upto or plan.upto or ""
        self._batch += 1
        note = TableNote(
            name="/tables/telemetry",
            application="fairlead:q",
            start="",
            batch=self._batch,
            version=self._batch,
            rowless=0,
        )
        self._client.note_reader(TOPIC, "telemetry", position=self.reached, generation=plan.generation, table=note)

    def places(self) -> dict[str, str]:
        """Message ids and where they stand."""
        return dict(self._rows())

    def _rows(self) -> Iterator[tuple[str, str]]:
        after = ""
        while True:
            page = self._client.poll(TOPIC, after=after)
            if not page.table.num_rows:
                return
            for id, payload in zip(page.table["id"].to_pylist(), page.table["payload"].to_pylist(), strict=True):
                yield json.loads(payload)["id"], id.hex()
            after = page.next_position


def receipt(line: WholeLine, id: str, **more: Any) -> dict[str, Any]:
    found = EdgeClient(line.edge.url).receipt(id, **more)
    assert found is not None, f"nothing is known of {id}"
    return found


def test_a_message_is_followed_into_a_table(line: WholeLine) -> None:
    """With the position it has, as the how-to asks for it; the way is measured, and people see it."""
    job = Job(line)
    [id] = line.edge.publish([telemetry(1, 21)])
    found = receipt(line, id, wait_seconds=60.0, until="in_topic")
    assert found["in_topic"]["position"] == job.places()[id] and found["in_topic"]["exact"]
    assert receipt(line, id)["in_table"] is None
    job.read()
    command = HOWTO.read_text().split("```sh\n")[1].split("```")[0].replace("http://127.0.0.1:10550", line.edge.url)
    asked = subprocess.run(
        ["bash", "-c", command], env={"ID": id, "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=True
    )
    found = json.loads(asked.stdout)
    assert (found["state"], found["in_table"]["table"], found["in_table"]["batch"]) == (
        "in_table", "/tables/telemetry", 1,
    )  # fmt: skip
    assert found["in_table"]["position"][:20] >= found["in_topic"]["position"][:20]
    shown = CliRunner().invoke(build(), ["edge", "status", "--url", line.edge.url])
    assert "to table  priority 1: half within" in shown.output

    line.routes({**ALL_PRIORITIES, "storeAndForwardConfiguration": {"timeToLiveSecs": 7201}})

    def in_the_cluster() -> bool:  # the agent reports each half minute, and what became of new routes at once
        shown = CliRunner().invoke(build(), ["status", "edge-1", "--hub", f"http://127.0.0.1:{line.hub.http_port}"])
        return "to table  priority 1: half within" in shown.output

    wait_until("the hub shows it", in_the_cluster, seconds=SECONDS)

    def without_the_hub() -> bool:
        options = ["--kubeconfig", str(line.cluster.kubeconfig)]
        shown = CliRunner().invoke(build(), ["status", "edge-1", *options]).output
        wide = CliRunner().invoke(build(), ["nodes", "-o", "wide", *options]).output
        return "; 1 measured, as of 20" in shown and " 1:" in wide

    wait_until("the API objects show it", without_the_hub, seconds=SECONDS)
    column = line.cluster.kubectl("get", "enode", "edge-1", "-o", "wide", "--no-headers").split()[-1]
    [row] = json.loads(line.cluster.kubectl("get", "enode", "edge-1", "-o", "json"))["status"]["toTable"]
    assert float(column) == row["p95Seconds"] and row["priority"] == 1


def test_no_receipt_is_false_and_none_is_lost_over_kills(line: WholeLine) -> None:
    """Edge, hub and messaging are killed at random moments; a model of the topic and the table is compared.

    Whatever an answer claims is true in the topic, and at the end each message has a receipt.
    """
    draw, job = random.Random(21), Job(line)
    ids: list[str] = []
    claimed: dict[str, dict[str, Any]] = {}
    for number in range(KILLS):
        ids += line.edge.publish([telemetry(draw.randrange(10), each) for each in range(BATCH)], seconds=SECONDS)
        part = (line.edge, line.hub, line.messaging)[number % 3]
        part.kill()
        if part is line.edge:
            line.edge.start_again()
        else:
            for id in draw.sample(ids, 5):
                claimed[id] = receipt(line, id)  # while it is away
            part.start()
        for id in draw.sample(ids, 5):
            claimed[id] = receipt(line, id)
    wait_until("all went up", line.edge.drained, seconds=SECONDS)
    places = job.places()
    middle = sorted(places[id] for id in ids)[len(ids) // 2]
    job.read(middle)
    for id in ids:
        claimed[f"{id} "] = receipt(line, id)
    for id, found in claimed.items():
        judge(found, places.get(id.strip(), ""), middle)
    assert all(claimed[f"{id} "]["in_topic"] for id in ids)
    job.read()
    states = {receipt(line, id, wait_seconds=60.0)["state"] for id in ids}
    assert states == {"in_table"}


def judge(found: dict[str, Any], place: str, reached: str) -> None:
    """Against what the topic has."""
    claim = found["in_topic"]
    if claim is not None:
        assert place, "it is not in its topic"
        assert claim["position"] == place if claim["exact"] else claim["position"][:20] >= place[:20]
    if found["in_table"] is not None:
        assert place[:20] <= reached[:20]
