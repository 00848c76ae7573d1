"""The way to the hub: the first step that fails is the finding."""

from __future__ import annotations

import datetime

from fairlead_cli.doctor.device.link import Trip, judge

NOW = datetime.datetime(2026, 11, 22, tzinfo=datetime.UTC)


def found(**facts: object) -> list[tuple[str, str, str]]:
    trip = Trip(host="hub.example.com", port=10000, addresses=("192.0.2.7",), **facts)  # type: ignore[arg-type]
    return [(each.check, each.level, each.message + each.remedy) for each in judge(trip, NOW, "edge-1")]


def test_all_steps() -> None:
    """With and without a hello."""
    assert [(check, level) for check, level, _ in found(greeted=True, hub="hub-0", hub_time=NOW)] == [
        ("proxy", "ok"), ("dns", "ok"), ("clock.skew", "ok"), ("link", "ok"),
    ]  # fmt: skip
    assert "the hello is the running agent's" in found()[-1][2]


def test_a_step_that_fails() -> None:
    """Its reason and its remedy, and nothing after it."""
    check, level, text = found(failed="hello", reason="there is no Node edge-1", code="node_unknown")[-1]
    assert (check, level) == ("link.hello", "problem")
    assert "there is no Node edge-1 (node_unknown)" in text and "kubectl label node edge-1" in text
    refused = found(failed="hello", reason="this edge has obeyed hub 901, this is 1", code="stale_hub")[-1]
    assert refused[1] == "problem" and refused[2].endswith(": fairlead node approve edge-1")
    assert found(failed="dns", reason="Name or service not known")[-1][:2] == ("dns", "problem")


def test_proxies() -> None:
    """One that is used, one that is set and not used."""
    assert found(proxy="http://proxy:3128")[0][:2] == ("proxy", "warning")
    _, level, text = found(unused_proxy="HTTPS_PROXY")[0]
    assert level == "ok" and "HTTPS_PROXY is set and not used" in text
