"""The line of commands that show the last known state, where no hub holds the Lease."""

from __future__ import annotations

import datetime
from typing import cast

import pytest
from tests.support.kube.api_in_memory import LEASES, ApiInMemory

from fairlead_cli.doctor.cluster import hub_lease
from fairlead_hub import leadership
from fairlead_hub.io.cluster.api_error import ApiRefused
from fairlead_hub.io.cluster.kube import Kube

NOW = datetime.datetime.now(datetime.UTC)


def lease(seconds_ago: float, name: str = leadership.NAME) -> dict[str, object]:
    renewed = (NOW - datetime.timedelta(seconds=seconds_ago)).isoformat()
    spec = {"holderIdentity": "hub-0", "leaseDurationSeconds": 3600, "renewTime": renewed}
    return {"metadata": {"name": name, "namespace": "fairlead"}, "spec": spec}


@pytest.mark.parametrize(
    ("leases", "line"),
    [
        ([], "no hub holds a Lease: what follows is the last known state"),
        ([lease(0, "another")], "no hub holds a Lease: what follows is the last known state"),
        ([lease(0)], ""),
        ([lease(36_000), lease(0, f"{leadership.NAME}-west")], ""),
    ],
)
async def test_one_line_where_no_hub_holds_the_lease(
    leases: list[dict[str, object]], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Other programs' Leases are not counted; one hub is enough."""
    await hub_lease.warn(cast(Kube, ApiInMemory({LEASES: leases})))
    said = capsys.readouterr()
    assert (said.out, said.err.strip()) == ("", line)


async def test_a_lease_that_is_over(capsys: pytest.CaptureFixture[str]) -> None:
    """Since when."""
    await hub_lease.warn(cast(Kube, ApiInMemory({LEASES: [lease(36_000)]})))
    said = capsys.readouterr().err
    assert said.startswith("no hub has renewed the Lease for 36") and said.endswith("the last known state\n")


async def test_without_the_right_to_read_leases_nothing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    api = ApiInMemory()
    api.refused[LEASES] = ApiRefused(403, "forbidden", "Forbidden")
    await hub_lease.warn(cast(Kube, api))
    assert capsys.readouterr().err == ""


async def test_who_asks_again_and_again_hears_it_once(capsys: pytest.CaptureFixture[str]) -> None:
    """And again when a hub was there in between."""
    line, api = hub_lease.LeaseLine(), ApiInMemory()
    for leases in ([], [], [lease(0)], []):
        api.objects = {LEASES: leases}
        await line.warn(cast(Kube, api))
    assert capsys.readouterr().err.count("no hub holds a Lease") == 2
