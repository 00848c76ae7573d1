"""The data plan of a settings file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from fairlead_edge.io.data_plan import open_plan
from fairlead_edge.outbox.plan.gate import OPEN
from fairlead_edge.settings import EdgeSettings

AGENT: dict[str, Any] = {"node": "n", "hub_url": "ws://127.0.0.1:1", "data_dir": "/d", "security": "insecure"}


def test_a_file_without_limits_limits_nothing(tmp_path: Path) -> None:
    plan = open_plan(msgspec.convert(AGENT, EdgeSettings), tmp_path, clock=lambda: 0.0)
    assert plan.gate is OPEN


def test_limits_windows_and_the_zone_of_the_day_are_those_of_the_file(tmp_path: Path) -> None:
    window = {"priorities": [7], "from": "00:00", "to": "24:00", "timezone": "Asia/Tokyo"}
    link = {"bytes_per_day": 7, "bytes_per_second": 8, "timezone": "Pacific/Kiritimati"}
    settings = msgspec.convert({**AGENT, "link": link, "windows": [window]}, EdgeSettings)
    plan = open_plan(settings, tmp_path, clock=lambda: 0.0)
    limits = plan.status().limits
    assert (limits.bytes_per_day, limits.bytes_per_second, limits.priorities) == (7, 8, (7,))
    plan.look(0)
    assert plan.gate.held(7, 0, 0.0) is None and plan.gate.held(7, 7, 0.0) is not None
