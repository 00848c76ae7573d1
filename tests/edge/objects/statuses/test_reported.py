"""One object's status through patches and answers."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.edges.held import config_map, held

from fairlead_edge.objects.statuses import reported
from fairlead_edge.objects.statuses.patch import PatchRefused, StatusPatch
from fairlead_edge.objects.statuses.reported import EdgeReportedStatus
from fairlead_wire import message

HELD = held(config_map("a"))


def after(kept: EdgeReportedStatus | None, status: Any, *, sequence: int = 1, **more: Any) -> EdgeReportedStatus | None:
    asked = StatusPatch(**{"operation": "Update", "manager": "me", "status": status, **more})
    return reported.patched(HELD, kept, asked, sequence=sequence, now=5.0)


def first(status: Any, **more: Any) -> EdgeReportedStatus:
    found = after(None, status, **more)
    assert found is not None
    return found


def test_a_patch_waits_until_it_is_answered() -> None:
    kept = first({"a": 1})
    assert (kept.state, kept.force, kept.status) == ("waiting", "cluster", b'{"a":1}')
    assert reported.settled(kept, 1).described == "written"
    assert reported.settled(kept, 1, code="invalid", reason="a: text").described == "refused: invalid: a: text"
    assert reported.settled(kept, 2) is kept  # about another one


def test_the_same_again_changes_nothing_unless_it_was_refused() -> None:
    kept = first({"a": 1})
    assert after(kept, {"a": 1}, sequence=2) is None
    assert after(reported.settled(kept, 1), {"a": 1}, sequence=2) is None
    again = after(reported.settled(kept, 1, code="forbidden"), {"a": 1}, sequence=2)
    assert again is not None and (again.state, again.sequence) == ("waiting", 2)
    assert after(None, None) is None


def test_what_still_waits_keeps_its_force() -> None:
    forced = first({"a": 1}, operation="Apply", force=True)
    assert forced.force == "all"
    newer = after(forced, {"b": 1}, operation="Apply", manager="other", sequence=2)
    assert newer is not None and newer.force == "all" and newer.status == b'{"a":1,"b":1}'
    later = after(reported.settled(forced, 1), {"b": 1}, operation="Apply", manager="other", sequence=2)
    assert later is not None and later.force == ""


def test_a_conflict_names_who_owns_the_field() -> None:
    kept = first({"a": 1}, operation="Apply")
    with pytest.raises(PatchRefused) as caught:
        after(kept, {"a": 2}, operation="Apply", manager="other")
    assert caught.value.status == 409 and '"me": .status.a' in str(caught.value)
    assert caught.value.details["causes"][0]["field"] == ".status.a"


def test_a_status_of_another_uid_does_not_count() -> None:
    kept = EdgeReportedStatus(uid="old", sequence=1, state="waiting", at=0.0, shares=first({"a": 1}).shares)
    found = after(kept, {"b": 1})
    assert found is not None and found.status == b'{"b":1}'


def test_limits() -> None:
    with pytest.raises(PatchRefused) as caught:
        first({"a": "x" * message.STATUS_BYTES_MAX})
    assert caught.value.status == 413
    kept: EdgeReportedStatus | None = None
    for number in range(reported.MANAGERS_MAX):
        kept = after(kept, {f"k{number}": 1}, manager=f"m{number}")
    with pytest.raises(PatchRefused) as caught:
        after(kept, {"more": 1}, manager="one-more")
    assert caught.value.status == 422
