"""What ``[[windows]]`` and ``[link]`` may say, and that every mistake is named at once."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fairlead_edge.outbox.plan import windows
from fairlead_edge.outbox.plan.windows import WindowSettings
from fairlead_edge.settings import EdgeSettings
from fairlead_wire.validation import struct_mistakes

AGENT: dict[str, Any] = {"node": "n", "hub_url": "ws://127.0.0.1:1", "data_dir": "/d", "security": "insecure"}
NIGHT: dict[str, Any] = {"priorities": [9], "from": "22:00", "to": "06:00", "timezone": "Europe/Berlin"}


def mistakes(**document: Any) -> list[str]:
    return [f"{each.key}: {each.reason}" for each in struct_mistakes.find({**AGENT, **document}, EdgeSettings)]


def test_windows_are_read_with_their_four_keys_and_days() -> None:
    found = msgspec.convert(
        {**AGENT, "windows": [NIGHT, {**NIGHT, "days": ["sat", "sun"], "to": "24:00"}]}, EdgeSettings
    )
    first, second = windows.windows_by_priority(found.windows)[9]
    assert (first.begins, first.ends, len(first.days)) == (1320, 360, 7) and str(first.zone) == "Europe/Berlin"
    assert second.ends == 1440 and second.days == frozenset({5, 6})
    assert WindowSettings(priorities=[1], begins="01:00", to="02:00").timezone == "UTC"


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"from": "25:00"}, "windows[0].from"),
        ({"from": "24:00"}, "windows[0].from"),
        ({"from": "7:00"}, "windows[0].from"),
        ({"to": "22:00"}, "windows[0].to"),
        ({"to": "٠٦:٠٠"}, "windows[0].to"),
        ({"timezone": "Berlin"}, "windows[0].timezone"),
        ({"timezone": "../../etc/passwd"}, "windows[0].timezone"),
        ({"timezone": "Europe"}, "windows[0].timezone"),
        ({"timezone": ""}, "windows[0].timezone"),
        ({"priorities": []}, "windows[0].priorities"),
        ({"priorities": [-1]}, "windows[0].priorities[0]"),
        ({"priorities": [10]}, "windows[0].priorities"),
        ({"priorities": [1_000_000_003]}, "windows[0].priorities"),
        ({"days": ["monday"]}, "windows[0].days[0]"),
        ({"day": ["mon"]}, "windows[0].day"),
    ],
)
def test_a_bad_window_is_refused_by_the_name_of_its_key(change: dict[str, Any], key: str) -> None:
    [found] = mistakes(windows=[{**NIGHT, **change}])
    assert found.startswith(f"{key}: "), found


def test_all_mistakes_are_named_at_once() -> None:
    found = mistakes(
        windows=[{**NIGHT, "from": "x", "timezone": "Nowhere/Land"}, {"priorities": [1]}],
        link={"bytes_per_day": -1, "bytes_per_second": 10**400, "timezone": "Mars/Base"},
        pump={"floor_share": 0.9},
    )
    keys = {each.partition(": ")[0] for each in found}
    assert keys == {
        "windows[0].from", "windows[0].timezone", "windows[1].from", "windows[1].to",
        "link.bytes_per_day", "link.bytes_per_second", "link.timezone", "pump.floor_share",
    }  # fmt: skip
