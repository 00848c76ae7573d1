"""The program as a user starts it: exit codes, logs, signals."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request

import polars as pl
import pytest
from tests.support.processes import Running, free_ports, start, wait_until
from tests.support.topics.job_settings import settings_file
from tests.support.topics.messaging_service import MessagingService, upstream_message

from fairlead_ingest import errors

COMMAND = [sys.executable, "-m", "fairlead_cli.main", "ingest", "run"]
# A quiet machine needs ten; one that runs other tests as well needs minutes.
SPARK_SECONDS = 480.0


def events(running: Running) -> list[str]:
    lines = [line for line in running.log.read_text().splitlines() if line.startswith("{")]
    return [json.loads(line)["event"] for line in lines]


def answered(port: int, path: str) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.process
@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("tirgger = 1", "tirgger"),
        ('trigger = "sometimes"', "trigger"),
        ('format = "csv"', "format"),
        ('starting_position = "yesterday"', "starting_position"),
        ("topics = []", "topics"),
        ('topics = ["no-namespace"]', "topics[0]"),
        ('http_listen = "0.0.0.0:1"', "http_listen"),
        ('checkpoint = "{folder}/rows"', "checkpoint"),
        ('checkpoint = "{folder}/rows/checkpoint"', "checkpoint"),
    ],
)
def test_bad_settings_exit_2_with_file_key_and_reason(tmp_path, line, key):
    path = settings_file(tmp_path, "http://127.0.0.1:1", "default/telemetry")
    kept = [each for each in path.read_text().splitlines() if not each.startswith(line.split(" ")[0] + " ")]
    path.write_text("\n".join([*kept, line.replace("{folder}", str(tmp_path))]))
    ended = subprocess.run([*COMMAND, "--config", str(path)], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 2
    assert f"fairlead ingest: {path}: {key}: " in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.process
def test_a_catalog_that_cannot_be_used_is_said_before_spark_starts(tmp_path):
    path = settings_file(tmp_path, "http://127.0.0.1:9", "a/t", table_format="iceberg")
    path.write_text(path.read_text() + f'[catalog]\nuri = "sqlite:///{tmp_path}/none/catalog.db"\n')
    ended = subprocess.run([*COMMAND, "--config", str(path)], capture_output=True, text=True, timeout=300)
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1), ended.stderr
    assert "FAIRLEAD_CATALOG_UNFIT: [catalog] sqlite:" in ended.stderr and "create it, or correct uri" in ended.stderr


@pytest.mark.process
def test_without_java_it_says_what_to_install(tmp_path):
    path = settings_file(tmp_path, "http://127.0.0.1:1", "default/telemetry")
    environ = {**os.environ, "JAVA_HOME": "", "PATH": str(tmp_path)}
    ended = subprocess.run([*COMMAND, "--config", str(path)], capture_output=True, text=True, timeout=120, env=environ)
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1
    assert "Java 17" in ended.stderr


@pytest.mark.verify
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_poisoned_pipeline_stops_alone_and_says_why(messaging, tmp_path):
    """The other takes in all there is; one message that breaks a transform is set aside, with its reason."""
    values = [f'messaging_url = "{messaging.url}"', 'security = "insecure"', 'trigger = "available-now"']
    (tmp_path / "own.py").write_text(
        "from pyspark.sql import functions as F\nfrom pyspark.sql.types import LongType\n\n"
        "def careful(rows):\n    def look(number):\n        if number == 7:\n"
        "            raise ValueError('seven is not for me')\n        return number\n"
        "    return rows.withColumn('looked', F.udf(look, LongType())('sequence'))\n\n"
        "def boom(rows):\n    raise ValueError('my transform broke')\n"
    )
    own = {
        "poisoned": f'transforms = ["{tmp_path}/own.py:careful"]',
        "broken": f'transforms = ["{tmp_path}/own.py:boom"]',
    }
    for name in ("broken", "good", "behind", "poisoned"):
        topic = f"default/{tmp_path.name.replace('_', '-')[:40]}-{name}".lower()
        messaging.create(topic)
        messaging.publish(topic, [upstream_message(number) for number in range(20)])
        values += [
            "[[pipelines]]", f'name = "{name}"', f'topics = ["{topic}"]', f'table = "{tmp_path}/{name}"',
            f'checkpoint = "{tmp_path}/{name}-checkpoint"',
            *([own[name]] if name in own else []),
        ]  # fmt: skip
    (tmp_path / "behind").mkdir()
    (tmp_path / "behind" / "metadata").mkdir()
    path = tmp_path / "ingest.toml"
    path.write_text("\n".join(values))
    running = start("ingest", [*COMMAND, "--config", str(path)], tmp_path / "ingest.log")
    assert running.process.wait(SPARK_SECONDS) == 1, running.tail()
    assert events(running)[-1] == "stopped"
    assert "Traceback" not in running.log.read_text()
    assert pl.scan_delta(str(tmp_path / "good")).collect().height == 20
    assert pl.scan_delta(str(tmp_path / "poisoned")).collect().height == 19
    [letter] = pl.scan_delta(str(tmp_path / "poisoned_dead_letters")).collect().to_dicts()
    assert (json.loads(letter["payload"])["sequence"], "seven is not for me" in letter["error"]) == (7, True)
    assert (letter["code"], letter["fields"]) == ("other", [])
    lines = [json.loads(line) for line in running.log.read_text().splitlines() if line.startswith("{")]
    stopped = {line["pipeline"]: line for line in lines if line["event"] == "pipeline_stopped"}
    codes = {name: line["code"] for name, line in stopped.items()}
    assert codes == {"behind": errors.TABLE_UNFIT, "broken": errors.BAD_OPTION}
    assert "own.py:boom raised ValueError: my transform broke (own.py line 12)" in stopped["broken"]["reason"]


@pytest.mark.verify
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_service_that_comes_late_is_waited_for_and_sigterm_drains(tmp_path):
    """Down, up, read, stopped: clear lines, no trace, exit 0, and a restart goes on."""
    messaging = MessagingService(tmp_path / "messaging")
    port = free_ports(1)[0]
    path = settings_file(
        tmp_path, messaging.url, "default/t", trigger=0.2, http_listen=f"127.0.0.1:{port}", receipts=True
    )
    running = start("ingest", [*COMMAND, "--config", str(path)], tmp_path / "ingest.log")
    try:
        wait_until(
            "it says that the service is down",
            lambda: "messaging_unreachable" in events(running),
            seconds=SPARK_SECONDS,
            describe=running.tail,
        )
        assert answered(port, "/healthz") == 200
        assert answered(port, "/readyz") == 503
        with messaging:
            messaging.create("default/t")
            messaging.publish("default/t", [upstream_message(number) for number in range(20)])
            wait_until(
                "the rows are in",
                lambda: "batch_committed" in events(running),
                seconds=SPARK_SECONDS,
                describe=running.tail,
            )
            wait_until("it is ready", lambda: answered(port, "/readyz") == 200, seconds=120)
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as response:
                text = response.read().decode()
            assert 'fairlead_ingest_rows_total{pipeline="ingest"} 20.0' in text
            assert 'fairlead_ingest_lag_rows{pipeline="ingest",topic="default/t"}' in text
            assert answered(port, "/v1/receipts/edge-1-7?node=edge-1") == 200
            assert answered(port, "/v1/receipts/edge-1-7?node=edge-2") == 404
            assert running.stop(seconds=SPARK_SECONDS) == 0, running.tail()
    finally:
        running.stop()
    assert "Traceback" not in running.log.read_text()
    assert "draining" in events(running)
    table = pl.scan_delta(str(tmp_path / "rows")).collect()
    assert sorted(table["sequence"].to_list()) == list(range(20))


@pytest.mark.verify
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_available_now_exits_0_when_all_is_committed(messaging, topic, tmp_path):
    messaging.publish(topic, [upstream_message(number) for number in range(20)])
    path = settings_file(tmp_path, messaging.url, topic, trigger="available-now")
    running = start("ingest", [*COMMAND, "--config", str(path)], tmp_path / "ingest.log")
    assert running.process.wait(SPARK_SECONDS) == 0, running.tail()
    said = events(running)
    assert said.index("starting") < said.index("spark_started") < said.index("batch_committed")
    assert pl.scan_delta(str(tmp_path / "rows")).collect().height == 20
