"""Leases, readiness, Pods, versions."""

from __future__ import annotations

import datetime
from typing import Any

from fairlead_cli.doctor.cluster.programs import (
    is_near,
    judge_leases,
    judge_pods,
    judge_ready,
    judge_versions,
    no_hub,
)

NOW = datetime.datetime(2026, 11, 22, 10, 0, tzinfo=datetime.UTC)


def lease(holder: str, seconds: float) -> dict[str, Any]:
    renewed = (NOW - datetime.timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed}
    return {"metadata": {"namespace": "fairlead", "name": "fairlead-hub"}, "spec": spec}


def pod(ready: bool, restarts: int = 0, **status: Any) -> dict[str, Any]:
    labels = {"app.kubernetes.io/component": "messaging"}
    state = {"waiting": {"reason": "CrashLoopBackOff"}} if not ready else {"running": {}}
    return {
        "metadata": {"namespace": "fairlead", "name": "m-0", "labels": labels},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": str(ready)}],
            "containerStatuses": [{"restartCount": restarts, "state": state}],
            **status,
        },
    }


def test_leases() -> None:
    assert [each.level for each in judge_leases([], NOW)] == ["problem"]
    found = list(judge_leases([lease("hub-0", 3), lease("hub-1", 60), lease("", 1)], NOW))
    assert [each.level for each in found] == ["ok", "problem", "problem"]
    assert "has expired (renewed 60 s ago)" in found[1].message


def test_readiness() -> None:
    assert judge_ready("hub", "http://hub", 200, "ok\n").level == "ok"
    assert "not ready (503): starting" in judge_ready("hub", "http://hub", 503, "starting\n").message
    assert judge_ready("messaging", "http://m", None, "Connection refused").level == "problem"


def test_pods() -> None:
    found = list(judge_pods([pod(True), pod(True, 9), pod(False), pod(False, phase="Succeeded")]))
    assert [each.level for each in found] == ["ok", "warning", "problem"]
    assert found[2].check == "messaging.pod" and "CrashLoopBackOff" in found[2].message


def test_versions() -> None:
    assert is_near("0.2.1", "0.1.0") and not is_near("0.3.0", "0.1.0") and is_near("", "0.1.0")
    assert [each.level for each in judge_versions(["0.1.0", "0.4.0"], "0.1.0")] == ["warning"]
    assert list(judge_versions([], "0.1.0")) == []


def test_no_hub_serves() -> None:
    assert no_hub([lease("hub-0", 3), lease("hub-1", 60)], NOW) == ""
    assert no_hub([lease("hub-0", 42), lease("hub-1", 60)], NOW) == "no hub has renewed the Lease for 42 s"
    assert no_hub([], NOW) == "no hub holds a Lease"
