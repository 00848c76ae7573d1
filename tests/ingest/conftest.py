"""One Spark session and one messaging service for all tests of ingest; each test takes a topic of its own."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.support.processes import wait_until
from tests.support.tables.object_store import ObjectStore
from tests.support.topics.job_settings import job_settings
from tests.support.topics.messaging_service import MessagingService

from fairlead_ingest import errors
from fairlead_ingest.io.metrics import IngestMetrics
from fairlead_ingest.io.pipeline.job import Job
from fairlead_ingest.io.spark import session as sessions
from fairlead_ingest.pipeline.failures import UNKNOWN_FAILURES_MAX
from fairlead_wire.errors import Permanent

Run = Callable[..., Job]

# Tests are short: the first compiler alone starts in half the time, one core and no shuffle are enough.
TEST_CONF = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    f" -Dlog4j2.configurationFile=file:{sessions.LOG4J}",
    "spark.sql.shuffle.partitions": "1",
}

HERE = Path(__file__).parent
# Spark takes seconds to start and a minute where others use the same cores.
SPARK_SECONDS = 600


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = sessions.start(master="local[2]", driver_memory="1g", conf=TEST_CONF)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def messaging(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MessagingService]:
    with MessagingService(tmp_path_factory.mktemp("messaging")) as service:
        yield service


@pytest.fixture
def topic(messaging: MessagingService) -> str:
    name = f"default/t{secrets.token_hex(4)}"
    messaging.create(name)
    return name


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with ObjectStore(tmp_path_factory.mktemp("store")) as running:
        yield running


@pytest.fixture
def run(spark: SparkSession, messaging: MessagingService, topic: str, tmp_path: Path) -> Run:
    """Run the job once with available-now; returns it when all that was stable at its start is committed."""

    def go(**changes: Any) -> Job:
        given = {"topics": [topic], "messaging_url": messaging.url, "trigger": "available-now", **changes}
        settings = job_settings(tmp_path, given.pop("messaging_url"), *given.pop("topics"), **given)
        job = Job(spark, settings, settings.jobs()[0], IngestMetrics())
        # As the program does: what has no code of ours is tried a few times from the checkpoint, and a worker that was
        # too slow to start on a busy machine (Spark gives it ten seconds) until the test's own time ends.
        unknown, deadline = 0, time.monotonic() + SPARK_SECONDS - 60
        try:
            while True:
                job.start()
                left = max(1.0, deadline - time.monotonic())
                wait_until("the query has ended", lambda: not job.is_running, seconds=left)
                failure = job.failure()
                unknown += failure is not None and failure[0] is None
                is_late = failure is not None and failure[0] == errors.WORKER_LATE and time.monotonic() < deadline
                if not is_late and (failure is None or failure[0] is not None or unknown == UNKNOWN_FAILURES_MAX):
                    break
        finally:
            # A query that is left running would let every test after this one fail by its name.
            job.close()
        if failure is not None:
            raise Permanent(failure[1], code=failure[0] or "none")
        return job

    return go


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What asks for the session carries the mark `spark`; the first of them pays for the start of Spark."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.timeout(SPARK_SECONDS))
        elif "messaging" in getattr(item, "fixturenames", ()) and HERE in item.path.parents:
            item.add_marker(pytest.mark.process)
