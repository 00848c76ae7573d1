"""Whose time counts where a person types."""

from __future__ import annotations

import datetime
import time
from email.utils import format_datetime
from typing import Any, cast

import pytest

from fairlead_cli.cluster import target
from fairlead_hub.io.cluster.api_error import ApiRefused
from fairlead_hub.io.cluster.kube import Kube

YEAR = datetime.timedelta(days=365)


class Api:
    """An API server that is ``off`` from this machine's clock; what it answers, it refuses."""

    def __init__(self, off: datetime.timedelta) -> None:
        self._off = off
        self.date = ("", 0.0)

    async def get(self, path: str) -> bytes:
        self.date = format_datetime(datetime.datetime.now(datetime.UTC) + self._off, usegmt=True), time.time()
        raise ApiRefused(403, f"{path} is not for you")


@pytest.mark.parametrize("off", [YEAR, -YEAR])
async def test_the_time_is_the_servers_also_where_it_refuses_all_else(off: datetime.timedelta) -> None:
    kube = cast(Kube, Api(off))
    found = await target.ask_time(kube)
    assert abs(found - datetime.datetime.now(datetime.UTC) - off) < YEAR / 2
    assert "s off the API server's" in target.clock_note(kube)


@pytest.mark.parametrize("said", ["", "tomorrow", "Mon, 99 Nov 2026 99:00:00 GMT"])
def test_without_a_date_it_is_this_machines(said: str) -> None:
    kube: Any = Api(YEAR)
    kube.date = said, time.time()
    assert abs(target.server_time(kube) - datetime.datetime.now(datetime.UTC)) < YEAR / 2
    assert target.clock_note(kube) == ""
