"""The session and what it needs."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from fairlead_ingest.io.spark import session
from fairlead_wire.errors import LocalError


def test_java_is_found_on_the_path_or_by_its_home(tmp_path):
    session.require_java(os.environ)
    java = shutil.which("java")
    assert java is not None
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(java)
    session.require_java({"JAVA_HOME": str(tmp_path)})
    with pytest.raises(LocalError, match="install a JRE"):
        session.require_java({"PATH": str(tmp_path)})
    with pytest.raises(
        LocalError, match=f"^JAVA_HOME={tmp_path}/none has no bin/java, and Spark needs Java 17 or newer: correct it"
    ):
        session.require_java({"JAVA_HOME": str(tmp_path / "none"), "PATH": os.environ["PATH"]})


def test_the_program_may_be_installed_in_a_folder_with_a_space():
    option = session.logging_option(Path("/opt/our programs/log4j2.properties"))
    assert option == "-Dlog4j2.configurationFile=file:///opt/our%20programs/log4j2.properties"


def test_the_session_is_quiet_and_lives_in_utc(spark):
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.sparkContext.uiWebUrl is None


def test_a_batchs_logs_are_written_without_starting_programs(spark):
    assert spark.conf.get(session.CHECKPOINT_FILES) == session.PLAIN_FILES
    assert not session._has_class(f"{session.PLAIN_FILES}OfAnotherVersion")


def test_a_thread_can_take_the_session_for_its_own(spark):
    session.activate(spark)
    assert SparkSession.getActiveSession() is not None


def test_pipelines_take_turns(spark):
    """Each under its own name, or one that catches up would go first with all of its tasks."""
    session.in_turns(spark, "one")
    try:
        assert spark.sparkContext.getLocalProperty("spark.scheduler.pool") == "one"
    finally:
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", None)


@pytest.mark.parametrize(
    ("master", "pipelines", "given"),
    [
        ("local[2]", 1, ("local[2]", {})),
        ("local[2]", 3, ("local[3]", {"spark.default.parallelism": "2"})),
        ("local", 2, ("local[2]", {"spark.default.parallelism": "1"})),
        ("local[*]", 2, ("local[5]", {"spark.default.parallelism": "4"})),
        ("local[2,4]", 2, ("local[2,4]", {})),
        ("spark://host:7077", 2, ("spark://host:7077", {})),
    ],
)
def test_several_pipelines_have_a_place_more_on_one_machine(master, pipelines, given):
    assert session.slots(master, pipelines, lambda: 4) == given
