"""Programs' versions, and a running agent's own account."""

from __future__ import annotations

from typing import Any

from fairlead_cli.doctor.device.agent import Programs, judge_programs, judge_running

STATUS: dict[str, Any] = {"agent": "0.1.0", "link": {"state": "connected", "hub": "hub-0"}, "deadLetters": 0}


def levels(in_use: bool, status: dict[str, Any] | None, error: str = "", here: str = "0.1.0") -> list[tuple[str, str]]:
    return [(each.check, each.level) for each in judge_running(in_use, status, error, here)]


def test_versions() -> None:
    """An old SQLite is a problem, a variable that is no setting a warning."""
    good = Programs(fairlead="0.1.0", python="3.11.2", sqlite="3.46.1")
    assert [each.level for each in judge_programs(good)] == ["ok"]
    strange = Programs(fairlead="0.1.0", python="3.11.2", sqlite="3.8.0", strange_variables=("FAIRLEAD_EGDE_NODE",))
    assert [each.level for each in judge_programs(strange)] == ["problem", "warning"]


def test_an_agent_that_refuses_a_hub_for_its_fencing_number() -> None:
    """When that ends by itself, and the command that ends it."""
    link = {"state": "connecting", "reason": "this edge has obeyed hub 901, this is 1", "followsInSeconds": 412.3}
    [found] = judge_running(True, STATUS | {"node": "edge-1", "link": link}, "", "0.1.0")
    assert (found.check, found.level) == ("agent.stale_hub", "problem")
    assert "obeyed hub 901, this is 1" in found.message
    assert "in 412 s" in found.remedy and found.remedy.endswith(": fairlead node approve edge-1")


def test_running_agents() -> None:
    """Connected, cut off, silent, updated and not restarted."""
    assert levels(False, None) == levels(True, STATUS) == [("agent", "ok")]
    cut = STATUS | {"link": {"state": "disconnected", "reason": "refused"}, "deadLetters": 3}
    assert levels(True, cut) == [("agent", "problem"), ("agent.dead_letters", "warning")]
    assert levels(True, None, "no answer") == [("agent", "problem")]
    assert levels(True, None) == [("agent", "ok")], "it answers with TLS alone: not asked"
    assert levels(True, STATUS, here="0.2.0")[0] == ("agent.version", "warning")
