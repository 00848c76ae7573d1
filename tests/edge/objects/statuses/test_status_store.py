"""What both stores decide alike; their promises are in the conformance suite."""

from __future__ import annotations

import pytest
from tests.support.edges.held import config_map, held

from fairlead_edge.objects.statuses import status_store
from fairlead_edge.objects.statuses.patch import PatchRefused
from fairlead_edge.objects.statuses.reported import EdgeReportedStatus
from fairlead_edge.objects.statuses.status_store import STATUSES_BYTES_MAX, STATUSES_MAX


def test_there_is_room_for_so_much() -> None:
    status_store.check_room(STATUSES_MAX - 1, STATUSES_BYTES_MAX)
    for count, size in ((STATUSES_MAX, 0), (0, STATUSES_BYTES_MAX + 1)):
        with pytest.raises(PatchRefused) as caught:
            status_store.check_room(count, size)
        assert caught.value.status == 507 and caught.value.retry_after


def test_a_status_is_shown_on_its_own_object_alone() -> None:
    there = held(config_map("a"))
    kept = EdgeReportedStatus(uid="another", sequence=1, state="waiting", at=0.0, shares={})
    assert status_store.with_status(there, kept) is there
    assert status_store.outgoing(there, kept) is None
