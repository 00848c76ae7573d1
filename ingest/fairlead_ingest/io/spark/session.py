"""Starts a Spark session for an ingest job: quiet, in UTC, without Spark's web UI, on one machine or a cluster."""

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
# What a query needs wherever it runs; a running Connect server accepts these settings for a session.
_CONF: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.streaming.numRecentProgressUpdates": "200",
    # ``Job.pause`` waits for the running batch; this only bounds a stop that hangs.
    "spark.sql.streaming.stopTimeout": "30s",
    "spark.sql.streaming.minBatchesToRetain": "20",
}
# Rows of the query that counts a Connect server's cores; enough that every task gets some.
_ROWS: Final = 4096
# Task slots beyond one for each core if several pipelines share them: a pipeline that catches up fills all cores, and
# the single task of a live one would wait for it.
EXTRA_SLOTS: Final = 1
_LOCAL: Final = re.compile(r"local(?:\[(\d+|\*)\])?")
# By default Spark starts about ten programs (readlink, chmod) for each of a batch's two log files, because Hadoop
# resolves symbolic links; this class starts two. Both write files atomically by renaming.
CHECKPOINT_FILES: Final = "spark.sql.streaming.checkpointFileManagerClass"
PLAIN_FILES: Final = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
LOG4J = Path(__file__).with_name("log4j2.properties")


def require_java(environ: Mapping[str, str]) -> None:
    """Raise ``LocalError`` saying what to install if there is no Java."""
    home = environ.get("JAVA_HOME")
    if shutil.which("java", path=f"{home}/bin" if home else environ.get("PATH")) is not None:
        return
    if home:
        raise LocalError(f"JAVA_HOME={home} has no bin/java, and Spark needs Java 17 or newer: correct it, or unset it")
    raise LocalError(JAVA_SENTENCE)


def logging_option(settings: Path) -> str:
    """The Java option for the log configuration; a URI, because Spark splits options at spaces in a path."""
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
    """Start a session with our source and sinks registered. ``conf`` overrides all settings made here.

    ``pipelines`` is the number of queries that run at once. With ``remote``, the session is on that Spark Connect
    server. Raises ``SparkAway``, ``Stop``.
    """
    if remote:
        session = connect.start(remote, {**_CONF, **conf})
    else:
        session = _of_master(master, driver_memory, conf, name, pipelines)
    register(session)
    return session


def _of_master(master: str, driver_memory: str, conf: Mapping[str, str], name: str, pipelines: int) -> SparkSession:
    # spark-submit sets the master; one set in the builder would silently override it.
    is_submitted = "SPARK_ENV_LOADED" in os.environ
    if not is_submitted and (masters := standalone_masters(master)):
        # Spark itself would try for a minute and then raise an unclear error.
        connect.require_answer("Spark master", masters)
    # Driver and workers must use the same Python: the one this program runs in.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    settings = _CONF | {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": driver_memory,
        "spark.driver.extraJavaOptions": f"{logging_option(LOG4J)} -XX:+UseG1GC",
        # Let tasks of several pipelines take turns; by default all tasks of the first batch run first.
        "spark.scheduler.mode": "FAIR",
        "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / "fairlead-warehouse"),
    }
    if master.startswith("local") and not is_submitted:
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    settings |= conf
    builder = SparkSession.builder.appName(name)
    if not is_submitted:
        master, more = slots(master, pipelines, lambda: _cores(settings))
        settings = {**more, **settings}
        builder = builder.master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    if session.conf.get(CHECKPOINT_FILES, None) is None and _has_class(PLAIN_FILES):
        session.conf.set(CHECKPOINT_FILES, PLAIN_FILES)
    return session


def _has_class(name: str) -> bool:
    """Whether this version of Spark has the class."""
    assert SparkContext._jvm is not None
    try:
        getattr(SparkContext._jvm, "java.lang.Class").forName(name)
    except Py4JJavaError:
        return False
    return True


def slots(master: str, pipelines: int, cores: Callable[[], int]) -> tuple[str, dict[str, str]]:
    """The master with enough task slots for this many pipelines, and the settings that keep the number of cores."""
    found = _LOCAL.fullmatch(master)
    if found is None or pipelines < 2:
        return master, {}
    count = cores() if found[1] == "*" else int(found[1] or 1)
    return f"local[{count + EXTRA_SLOTS}]", {"spark.default.parallelism": str(count)}


def _cores(settings: Mapping[str, str]) -> int:
    """The number of cores ``local[*]`` would use, which Java knows also in a container. Starts the JVM."""
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    SparkContext._ensure_initialized(conf=conf)
    runtime = getattr(SparkContext._jvm, "java.lang.Runtime")
    return int(runtime.getRuntime().availableProcessors())


def register(session: SparkSession) -> None:
    """Register ``fairlead``, ``fairlead_delta`` and ``fairlead_iceberg`` with a session."""
    session.dataSource.register(FairleadDataSource)
    session.dataSource.register(DeltaSink)
    session.dataSource.register(IcebergSink)


def activate(session: SparkSession) -> None:
    """Make ``session`` the active one of the JVM thread that serves this Python thread, where writers look up their
    format; only the thread that created the session has it. A Connect server needs no such call."""
    if connect.is_remote(session):
        return
    jvm = session._jvm
    assert jvm is not None
    jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(session._jsparkSession)


def in_turns(session: SparkSession, name: str) -> None:
    """Run what this thread starts from now on in the scheduler pool ``name``, which takes turns with other pools."""
    if not connect.is_remote(session):
        session.sparkContext.setLocalProperty("spark.scheduler.pool", name)


def is_local(session: SparkSession) -> bool:
    """Whether tasks run in the driver's own JVM."""
    if connect.is_remote(session):
        return False
    master = str(session.sparkContext.master)
    return master == "local" or master.startswith("local[")


def is_kubernetes(session: SparkSession) -> bool:
    """Whether executors are Pods that this driver creates."""
    return not connect.is_remote(session) and str(session.sparkContext.master).startswith(KUBERNETES)


def parallelism(session: SparkSession) -> int:
    """How many tasks can run at once on the current executors."""
    if not connect.is_remote(session):
        return int(session.sparkContext.defaultParallelism)
    # A Connect server does not report it, so run a query and count its tasks.
    tasks = session.range(_ROWS).select(F.spark_partition_id().alias("task")).distinct().count()
    return max(1, tasks)


def executors(session: SparkSession) -> int:
    """The number of executors of a driver in this process."""
    jvm_context = session.sparkContext._jsc.sc()
    # The list includes the driver.
    return len(jvm_context.statusTracker().getExecutorInfos()) - 1
