"""`fairlead edge status`: a real agent with policies of its own, asked as a user would."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.support.edges.edge_agent import EdgeAgent
from tests.support.processes import wait_until

from fairlead_cli.commands.edge import status
from fairlead_cli.main import build
from fairlead_edge.io.client import EdgeClient

SETTINGS = {
    "UPSTREAM_DELIVERY_MAXIMUM_DELAY": "20",
    "UPSTREAM_DELIVERY_JITTER": "none",
    "UPSTREAM_DELIVERY_RETRIES_MAX": "5",
}


@pytest.mark.process
def test_policies_link_and_queues_are_shown(tmp_path: Path) -> None:
    """The configured policy towards the hub, and that of brokered endpoints; also when no hub is there."""
    agent = EdgeAgent(tmp_path, "ws://127.0.0.1:1", **SETTINGS).start()
    try:
        shown = CliRunner().invoke(build(), ["edge", "status", "--url", agent.url])
        assert shown.exit_code == 0, shown.output
        upstream = "7 retries from 1 to 20 s (exponential), then 190000 every 20 s; at most 5 retries"
        assert f"delivery  upstream: {upstream}" in shown.output and "delivery  brokered: " in shown.output
        assert "node      edge-1" in shown.output and "hub last heard never" in shown.output
        found = json.loads(CliRunner().invoke(build(), ["edge", "status", "--url", agent.url, "-o", "json"]).output)
        assert found["delivery"]["upstream"]["maximum_delay"] == 20
        assert found["delivery"]["upstream"]["summary"] == upstream
    finally:
        agent.kill()


@pytest.mark.process
def test_a_policy_that_contradicts_itself_is_refused_like_any_other(tmp_path: Path) -> None:
    agent = EdgeAgent(tmp_path, "ws://127.0.0.1:1", UPSTREAM_DELIVERY_MAXIMUM_DELAY="0.5")
    running = agent.launch()
    wait_until("it has ended", lambda: not running.alive, seconds=30)
    assert running.stop() == 2
    assert "upstream.delivery.maximum_delay: must not be below minimum_delay, is 0.5 < 1" in agent.log.read_text()


@pytest.mark.parametrize(
    ("used", "is_used_up", "said"),
    [
        (10, False, "traffic   10 bytes of 100 bytes today"),
        (
            90,
            True,
            "traffic   90 bytes of 100 bytes today, nine tenths used: only priority 0 is sent; "
            "sending resumes in 1 min",
        ),
        (100, True, "traffic   100 bytes of 100 bytes today, used up; sending resumes in 1 min"),
    ],
)
def test_how_far_the_day_is_used_up_is_what_the_plan_does(used: int, is_used_up: bool, said: str) -> None:
    plan = {"bytesToday": used, "bytesPerDay": 100, "usedUp": is_used_up, "nextDaySeconds": 60, "bytesPerSecond": None}
    assert status._plan(plan) == [said]


def test_an_agent_that_does_not_answer_is_one_sentence() -> None:
    shown = CliRunner().invoke(build(), ["edge", "status", "--url", "http://127.0.0.1:1"])
    assert shown.exit_code == 1 and shown.output.startswith("Error: no answer from http://127.0.0.1:1")
    assert "Connection refused; is the agent running" in shown.output and "urlopen" not in shown.output


@pytest.mark.parametrize("url", ["", "nonsense", "http://\u2603"])
def test_what_is_no_address_is_one_sentence(url: str) -> None:
    shown = CliRunner().invoke(build(), ["edge", "status", "--url", url])
    assert shown.exit_code == 2 and "the agent's address must be http://host:port" in shown.output


def test_what_takes_room_has_a_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    link = {"state": "connected", "hub": "h", "reason": "", "lastContactSeconds": 1}
    plan = {"bytesToday": 2310455, "bytesPerDay": 50_000_000, "bytesPerSecond": None, "usedUp": False}
    found = {
        **{"node": "edge-1", "agent": "1", "link": {**link, "plan": plan}, "delivery": {}, "toTable": [], "routes": {}},
        **{"objects": {"held": 3, "bytes": 16273, "maxBytes": 805306368}, "store": {"bytes": 0, "maxBytes": 1024}},
        **{"deadLetters": 0, "queues": []},
    }
    monkeypatch.setattr(EdgeClient, "status", lambda _: found)
    lines = CliRunner().invoke(build(), ["edge", "status", "--url", "http://127.0.0.1:1"]).output.splitlines()
    assert "objects   3 held, 15.9 KiB of 768 MiB" in lines
    assert "messages  0 bytes of 1 KiB, 0 dead letters" in lines
    assert "traffic   2.3 MB of 50 MB today" in lines


@pytest.mark.process
def test_a_node_without_routes_is_told_so(tmp_path: Path) -> None:
    agent = EdgeAgent(tmp_path, "ws://127.0.0.1:1").start()
    try:
        shown = CliRunner().invoke(build(), ["edge", "status", "--url", agent.url])
        assert "routes    none: no EdgeRoutes object selects this node" in shown.output
    finally:
        agent.kill()
