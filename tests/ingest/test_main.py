"""The same job by spark-submit, on a real standalone cluster: a master and two workers from the installed pyspark."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pyspark
import pytest
from tests.support.processes import Running, free_ports, start, wait_until
from tests.support.topics.messaging_service import upstream_message

import fairlead_ingest.__main__ as program

HOME = Path(pyspark.__file__).parent
SECONDS = 200.0
ENVIRON = {**os.environ, "SPARK_HOME": str(HOME), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    port, page, *pages = free_ports(4)
    address = f"spark://127.0.0.1:{port}"
    base = [str(HOME / "bin" / "spark-class")]
    environ = {**ENVIRON, "SPARK_DAEMON_MEMORY": "256m"}
    listen = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", str(page)]
    started: list[Running] = []
    try:
        command = [*base, "org.apache.spark.deploy.master.Master", *listen]
        started.append(start("master", command, tmp_path / "master.log", environ=environ))
        for number, each in enumerate(pages):
            worker = ["--cores", "1", "--memory", "1g", "--webui-port", str(each), "--work-dir", str(tmp_path / "work")]
            command = [*base, "org.apache.spark.deploy.worker.Worker", *worker, address]
            started.append(start(f"worker-{number}", command, tmp_path / f"worker-{number}.log", environ=environ))

        def registered() -> bool:
            return len(re.findall("Registering worker", (tmp_path / "master.log").read_text())) == 2

        wait_until("both workers have registered", registered, seconds=SECONDS, describe=started[0].tail)
        yield address
    finally:
        for running in reversed(started):
            running.kill()


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_spark_submit_runs_the_job_on_a_cluster(master, messaging, topic, tmp_path):
    """Files are written by the workers, committed by the driver; no row less than on one machine."""
    messaging.publish(topic, [upstream_message(number) for number in range(200)])
    config = tmp_path / "ingest.toml"
    config.write_text(
        f'messaging_url = "{messaging.url}"\nsecurity = "insecure"\ntopics = ["{topic}"]\ntrigger = "available-now"\n'
        f'table = "{tmp_path}/rows"\ncheckpoint = "{tmp_path}/checkpoint"\n[limits]\nsplit_bytes = 1\n'
    )
    command = [str(HOME / "bin" / "spark-submit"), "--master", master, "--executor-memory", "512m"]
    submitted = start(
        "submit", [*command, program.__file__, "--config", str(config)], tmp_path / "submit.log", environ=ENVIRON
    )
    try:
        assert submitted.process.wait(SECONDS * 4) == 0, submitted.tail()
    finally:
        submitted.kill()
    table = pl.scan_delta(str(tmp_path / "rows")).collect()
    assert sorted(table["sequence"].to_list()) == list(range(200))
    assert "app-" in " ".join(path.name for path in (tmp_path / "work").iterdir())
