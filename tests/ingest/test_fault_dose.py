"""A short dose of `make faults ONLY=ingest`: random kills, the kill at the worst moment, a full disk."""

from __future__ import annotations

import os

import pytest
from tests.faults import fault_ingest, fault_ingest_mishaps
from tests.faults.collect import Count


def whole(count: Count) -> bool:
    return count["acknowledged"] > 0 and (count["lost"], count["duplicated"], count["untrue"]) == (0, 0, 0)


@pytest.mark.faults
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_every_message_is_one_row_whatever_is_killed():
    assert whole(fault_ingest.run(2, 20261120, print, sink="delta"))


@pytest.mark.nightly
@pytest.mark.faults
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_every_message_is_one_row_of_a_table_in_a_store_that_is_killed_too():
    """By this seed the store is killed, then the driver, then the store again."""
    assert whole(fault_ingest.run(3, 38, print, sink="delta in a store"))


@pytest.mark.nightly
@pytest.mark.faults
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_a_kill_between_the_tables_commit_and_sparks_costs_no_row():
    assert whole(fault_ingest_mishaps.tell(fault_ingest_mishaps.killed_between_commits, "delta"))


@pytest.mark.nightly
@pytest.mark.faults
@pytest.mark.spark
@pytest.mark.timeout(900)
@pytest.mark.skipif(os.geteuid() != 0, reason="a small disk has to be mounted")
def test_a_job_waits_while_its_disk_is_full():
    """Table, checkpoint and Spark's own files; killed meanwhile as well."""
    assert whole(fault_ingest_mishaps.tell(fault_ingest_mishaps.disk_full, "delta"))
