"""One Spark session and one messaging service for all tests of ingest; each test takes a topic of its own."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from tests.support.messaging_service import MessagingService

from fairlead_ingest.io import session as sessions

# Tests are short: the first compiler alone starts in half the time, one core and no shuffle are enough.
TEST_CONF = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    f" -Dlog4j2.configurationFile=file:{sessions.LOG4J}",
    "spark.sql.shuffle.partitions": "1",
}

# Spark takes seconds to start and a minute where others use the same cores.
SPARK_SECONDS = 300


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session as the program makes it, but smaller."""
    session = sessions.start(master="local[2]", driver_memory="1g", conf=TEST_CONF)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def messaging(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MessagingService]:
    """The real service."""
    with MessagingService(tmp_path_factory.mktemp("messaging")) as service:
        yield service


@pytest.fixture
def topic(messaging: MessagingService) -> str:
    """A fresh topic."""
    name = f"default/t{secrets.token_hex(4)}"
    messaging.create(name)
    return name


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What asks for the session carries the mark `spark`; the first of them pays for the start of Spark."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.timeout(SPARK_SECONDS))
