"""A Spark session as an ingest job wants it: quiet, UTC, no web page, and the same on one machine or a cluster."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from fairlead_ingest.io.sink.spark_sink import DeltaSink, IcebergSink
from fairlead_ingest.io.spark import connect
from fairlead_ingest.io.topics.spark_source import FairleadDataSource
from fairlead_ingest.spark_cluster import KUBERNETES, standalone_masters
from fairlead_wire.errors import LocalError

JAVA_SENTENCE = "Spark needs Java 17 or newer: install a JRE (for example openjdk-17-jre-headless) or set JAVA_HOME"
# What a query needs wherever it runs; a running server takes these from a session.
_CONF: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.streaming.numRecentProgressUpdates": "200",
    # Stopping waits for the running batch by itself (app); this only bounds a stop that hangs.
    "spark.sql.streaming.stopTimeout": "30s",
    "spark.sql.streaming.minBatchesToRetain": "20",
}
# Rows of the query by which a server is asked for its cores: each of its tasks has some of them.
_ROWS: Final = 4096
# A place for a task beyond one for each core, where several pipelines share them: a pipeline that catches up takes one
# for each core, and the one task of a live one would wait until one of those has ended.
PLACES_MORE: Final = 1
_LOCAL: Final = re.compile(r"local(?:\[(\d+|\*)\])?")
# By default Spark starts some ten programs (readlink, chmod) for each of a batch's two logs, by Hadoop's way to files
# that knows symbolic links; this one starts two. Both put a file in its place by renaming it.
CHECKPOINT_FILES: Final = "spark.sql.streaming.checkpointFileManagerClass"
PLAIN_FILES: Final = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
LOG4J = Path(__file__).with_name("log4j2.properties")


def require_java(environ: Mapping[str, str]) -> None:
    """Raises ``LocalError`` with what to install when no Java can be found."""
    home = environ.get("JAVA_HOME")
    candidate = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java", path=environ.get("PATH"))
    if candidate is None:
        raise LocalError(JAVA_SENTENCE)


def logging_option(settings: Path) -> str:
    """One word for Java; Spark cuts its options at spaces, so the folder of an installation may have some only here."""
    return f"-Dlog4j2.configurationFile={settings.as_uri()}"


def start(
    *,
    master: str,
    driver_memory: str,
    conf: Mapping[str, str],
    name: str = "fairlead-ingest",
    remote: str | None = None,
    pipelines: int = 1,
) -> SparkSession:
    """The session, with our source and sink known to it, for so many pipelines at once. ``conf`` wins over everything
    set here.

    With ``remote`` it is one on that Spark Connect server. Raises ``SparkAway``, ``Stop``.
    """
    if remote:
        session = connect.start(remote, {**_CONF, **conf})
    else:
        session = _of_master(master, driver_memory, conf, name, pipelines)
    register(session)
    return session


def _of_master(master: str, driver_memory: str, conf: Mapping[str, str], name: str, pipelines: int) -> SparkSession:
    # Under spark-submit the master is given there; a builder's would silently win over it.
    is_submitted = "SPARK_ENV_LOADED" in os.environ
    if not is_submitted and (masters := standalone_masters(master)):
        # Spark itself would look for a minute, and then say something else.
        connect.require_answer("Spark master", masters)
    # Driver and workers must be the same Python; a job is started from the installed program's own.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    settings = _CONF | {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": driver_memory,
        "spark.driver.extraJavaOptions": f"{logging_option(LOG4J)} -XX:+UseG1GC",
        # Tasks of several pipelines take turns; by default those of the batch that was first go first, all of them.
        "spark.scheduler.mode": "FAIR",
        "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / "fairlead-warehouse"),
    }
    if master.startswith("local") and not is_submitted:
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    settings |= conf
    builder = SparkSession.builder.appName(name)
    if not is_submitted:
        master, more = places(master, pipelines, lambda: _cores(settings))
        settings = {**more, **settings}
        builder = builder.master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    if session.conf.get(CHECKPOINT_FILES, None) is None and _has_class(PLAIN_FILES):
        session.conf.set(CHECKPOINT_FILES, PLAIN_FILES)
    return session


def _has_class(name: str) -> bool:
    """Spark's own classes move with its versions."""
    assert SparkContext._jvm is not None
    try:
        getattr(SparkContext._jvm, "java.lang.Class").forName(name)
    except Py4JJavaError:
        return False
    return True


def places(master: str, pipelines: int, cores: Callable[[], int]) -> tuple[str, dict[str, str]]:
    """The master with the places that so many pipelines want, and Spark's settings that say how many are cores."""
    found = _LOCAL.fullmatch(master)
    if found is None or pipelines < 2:
        return master, {}
    count = cores() if found[1] == "*" else int(found[1] or 1)
    return f"local[{count + PLACES_MORE}]", {"spark.default.parallelism": str(count)}


def _cores(settings: Mapping[str, str]) -> int:
    """What ``local[*]`` would take: Java knows how much of the machine a container may have. Starts it."""
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    SparkContext._ensure_initialized(conf=conf)
    runtime = getattr(SparkContext._jvm, "java.lang.Runtime")
    return int(runtime.getRuntime().availableProcessors())


def register(session: SparkSession) -> None:
    """Make ``fairlead``, ``fairlead_delta`` and ``fairlead_iceberg`` known to a session."""
    session.dataSource.register(FairleadDataSource)
    session.dataSource.register(DeltaSink)
    session.dataSource.register(IcebergSink)


def activate(session: SparkSession) -> None:
    """Make ``session`` the one of this thread: writers look for their format there, and a thread of Spark that did not
    make the session (each connection from Python has one) knows none. A Connect server does so by itself."""
    if connect.is_remote(session):
        return
    jvm = session._jvm
    assert jvm is not None
    jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(session._jsparkSession)


def in_turns(session: SparkSession, name: str) -> None:
    """What this thread starts from now on takes turns with what others start under other names."""
    if not connect.is_remote(session):
        session.sparkContext.setLocalProperty("spark.scheduler.pool", name)


def is_local(session: SparkSession) -> bool:
    """Tasks run in the driver's own JVM: what the program has, they have."""
    if connect.is_remote(session):
        return False
    master = str(session.sparkContext.master)
    return master == "local" or master.startswith("local[")


def is_kubernetes(session: SparkSession) -> bool:
    """Executors are Pods that this driver asks for."""
    return not connect.is_remote(session) and str(session.sparkContext.master).startswith(KUBERNETES)


def parallelism(session: SparkSession) -> int:
    """How many tasks run at once, as far as executors have come."""
    if not connect.is_remote(session):
        return int(session.sparkContext.defaultParallelism)
    # A server says it only by what it does.
    tasks = session.range(_ROWS).select(F.spark_partition_id().alias("task")).distinct().count()
    return max(1, tasks)


def executors(session: SparkSession) -> int:
    """How many there are, of a driver in this process."""
    jvm_context = session.sparkContext._jsc.sc()
    # The driver is one of them.
    return len(jvm_context.statusTracker().getExecutorInfos()) - 1
