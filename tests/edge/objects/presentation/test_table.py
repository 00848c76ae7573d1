"""Objects laid out as rows for kubectl get."""

from __future__ import annotations

import pytest
from tests.support.edges.held import config_map

from fairlead_edge.objects.presentation import table

NOW = 1_795_200_000.0
POD = {
    "metadata": {"name": "till", "creationTimestamp": "2026-11-20T17:39:00Z"},
    "spec": {"nodeName": "edge-1", "containers": [{}, {}]},
    "status": {
        "phase": "Running",
        "podIP": "10.0.0.7",
        "containerStatuses": [{"ready": True, "restartCount": 2}, {"ready": False, "restartCount": 1}],
    },
}


def test_a_pod_shows_ready_status_and_restarts() -> None:
    made = table.table("", "pods", [POD], metadata={"resourceVersion": "4"}, now=NOW)
    assert [column["name"] for column in made["columnDefinitions"]] == [
        "Name",
        "Ready",
        "Status",
        "Restarts",
        "Age",
        "IP",
        "Node",
    ]
    assert [column["priority"] for column in made["columnDefinitions"]] == [0, 0, 0, 0, 0, 1, 1]
    [row] = made["rows"]
    assert row["cells"] == ["till", "1/2", "Running", 3, "61m", "10.0.0.7", "edge-1"]
    assert row["object"]["kind"] == "PartialObjectMetadata" and made["metadata"] == {"resourceVersion": "4"}


@pytest.mark.parametrize(
    "odd",
    [
        {"spec": 5},
        {"status": {"containerStatuses": [None]}},
        {"status": {"containerStatuses": [{"restartCount": "x"}]}},
    ],
)
def test_a_pod_of_an_odd_shape_costs_its_own_cells(odd: dict[str, object]) -> None:
    made = table.table("", "pods", [{**POD, **odd}, POD], metadata={}, now=NOW)
    [strange, sound] = made["rows"]
    assert strange["cells"] == ["till", None, None, None, None, None, None]
    assert sound["cells"][1] == "1/2"


def test_a_pod_without_status_and_one_being_deleted() -> None:
    bare = {"metadata": {"name": "a"}}
    leaving = {"metadata": {"name": "b", "deletionTimestamp": "2026-11-20T18:39:00Z"}, "status": {"phase": "Running"}}
    rows = table.table("", "pods", [bare, leaving], metadata={}, now=NOW)["rows"]
    assert rows[0]["cells"] == ["a", "0/0", "Unknown", 0, "<unknown>", "<none>", "<none>"]
    assert rows[1]["cells"][2] == "Terminating"


def test_config_maps_secrets_and_others() -> None:
    secret = {"metadata": {"name": "s"}, "type": "Opaque", "data": {"a": "", "b": ""}}
    cells = [
        table.table("", plural, [document], metadata={}, now=NOW)["rows"][0]["cells"]
        for plural, document in (("configmaps", config_map("c")), ("secrets", secret), ("tills", config_map("t")))
    ]
    assert cells == [["c", 1, "<unknown>"], ["s", "Opaque", 2, "<unknown>"], ["t", "<unknown>"]]


def test_the_object_comes_as_asked_for() -> None:
    for include, kind in (("None", None), ("Metadata", "PartialObjectMetadata"), ("Object", "ConfigMap")):
        [row] = table.table("", "configmaps", [config_map("c")], metadata={}, now=NOW, include_object=include)["rows"]
        assert (row.get("object") or {}).get("kind") == kind


def test_later_events_of_a_watch_have_no_headers() -> None:
    assert table.table("", "pods", [], metadata={}, now=NOW, headers=False)["columnDefinitions"] is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (600, "10m"),
        (7200, "120m"),
        (10800, "3h"),
        (11100, "3h5m"),
        (28800, "8h"),
        (172799, "47h"),
        (172800, "2d"),
        (176400, "2d1h"),
        (864000, "10d"),
    ],
)
def test_ages_are_short(seconds: int, text: str) -> None:
    import datetime

    then = datetime.datetime.fromtimestamp(NOW - seconds, datetime.UTC).isoformat().replace("+00:00", "Z")
    assert table.age(then, NOW) == text


@pytest.mark.parametrize(("timestamp", "text"), [(None, "<unknown>"), ("", "<unknown>"), ("yesterday", "<invalid>")])
def test_an_age_that_cannot_be_read(timestamp: str | None, text: str) -> None:
    assert table.age(timestamp, NOW) == text
