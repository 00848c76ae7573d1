"""What the ingest program tells of its table, also over kill -9, and why it stopped."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from tests.support.processes import Running, start, wait_until
from tests.support.topics.job_settings import settings_file
from tests.support.topics.messaging_service import MessagingService, upstream_message

from fairlead_messaging.client.errors import TopicMissing
from fairlead_messaging.client.io.sync_client import Client

COMMAND = [sys.executable, "-m", "fairlead_cli.main", "ingest", "run"]
SPARK_SECONDS = 280.0


def launch(folder: Path, messaging: MessagingService, **more: Any) -> Running:
    path = settings_file(folder, messaging.url, "default/t", **{"trigger": "available-now", **more})
    return start("ingest", [*COMMAND, "--config", str(path)], folder / "ingest.log")


def told(messaging: MessagingService) -> list[dict[str, Any]]:
    with Client(messaging.url) as client:
        try:
            return [json.loads(each.payload) for each in client.poll("system", "events").messages]
        except TopicMissing:
            return []


def height(folder: Path) -> int:
    try:
        return int(DeltaTable(str(folder / "rows")).to_pyarrow_table().num_rows)
    except TableNotFoundError:
        return 0


@pytest.mark.verify
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_a_commit_is_published_by_the_next_run_and_so_is_the_reason_to_stop(tmp_path):
    """The first run is killed before it could tell; the second reads it in the table's log, and cannot go on."""
    with MessagingService(tmp_path / "messaging") as messaging:
        messaging.create("default/t")
        messaging.publish("default/t", [upstream_message(number) for number in range(10)])
        silent = launch(tmp_path, messaging, trigger=0.2, **{"events.topic": ""})
        wait_until("it has committed", lambda: height(tmp_path) == 10, seconds=SPARK_SECONDS, describe=silent.tail)
        silent.kill()
        assert told(messaging) == []
        messaging.delete("default/t")
        messaging.create("default/t")
        messaging.publish("default/t", [upstream_message(10)])

        stopped = launch(tmp_path, messaging)
        assert stopped.process.wait(SPARK_SECONDS) == 1, stopped.tail()
        committed, reason = told(messaging)
        assert (committed["type"], committed["source"]) == ("dev.fairlead.table.committed", "/fairlead/ingest/ingest")
        assert committed["subject"] == str(tmp_path / "rows")
        assert (committed["data"]["rows"], committed["data"]["batch"]) == (10, 0)
        assert committed["data"]["positions"]["default/t"]["generation"] == 1
        assert (
            DeltaTable(str(tmp_path / "rows"), version=committed["data"]["version"]).to_pyarrow_table().num_rows == 10
        )
        assert (reason["type"], reason["data"]["reason"]) == ("dev.fairlead.job.stopped", "FAIRLEAD_TOPIC_RECREATED")
        assert reason["data"]["pipelines"] == ["ingest"]
