"""The program as a user starts it: exit codes, logs, signals."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, cast

import polars as pl
import pytest
from tests.support.messaging_service import MessagingService, upstream_message
from tests.support.processes import Running, free_ports, start, wait_until

from fairlead_ingest import errors
from fairlead_ingest.app import START_SECONDS, STOPPED_SECONDS, Driver
from fairlead_ingest.io.pipeline.job import Job
from fairlead_ingest.pipeline.failures import RETRY_SECONDS_MAX, UNKNOWN_FAILURES_MAX

COMMAND = [sys.executable, "-m", "fairlead_cli.main", "ingest", "run"]
# A quiet machine needs ten; one that runs other tests as well needs minutes.
SPARK_SECONDS = 480.0


def config(folder: Path, url: str, topic: str, **more: Any) -> Path:
    values = {
        "messaging_url": url,
        "topics": [topic],
        "table": str(folder / "rows"),
        "checkpoint": str(folder / "checkpoint"),
        "security": "insecure",
        **more,
    }
    path = folder / "ingest.toml"
    path.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items()))
    return path


def events(running: Running) -> list[str]:
    lines = [line for line in running.log.read_text().splitlines() if line.startswith("{")]
    return [json.loads(line)["event"] for line in lines]


def answered(port: int, path: str) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as response:
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
        ('topics = ["no-namespace"]', "topics"),
        ('http_listen = "0.0.0.0:1"', "http_listen"),
        ('checkpoint = "{folder}/rows"', "checkpoint"),
        ('checkpoint = "{folder}/rows/checkpoint"', "checkpoint"),
    ],
)
def test_bad_settings_exit_2_with_file_key_and_reason(tmp_path: Path, line: str, key: str) -> None:
    """Nobody has to read a trace to find a typing error."""
    path = config(tmp_path, "http://127.0.0.1:1", "default/telemetry")
    kept = [each for each in path.read_text().splitlines() if not each.startswith(line.split(" ")[0] + " ")]
    path.write_text("\n".join([*kept, line.replace("{folder}", str(tmp_path))]))
    ended = subprocess.run([*COMMAND, "--config", str(path)], capture_output=True, text=True, timeout=30)
    assert ended.returncode == 2
    assert f"fairlead ingest: {path}: {key}: " in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.process
def test_without_java_it_says_what_to_install(tmp_path: Path) -> None:
    """One sentence, exit 2."""
    path = config(tmp_path, "http://127.0.0.1:1", "default/telemetry")
    environ = {**os.environ, "JAVA_HOME": str(tmp_path), "PATH": str(tmp_path)}
    ended = subprocess.run([*COMMAND, "--config", str(path)], capture_output=True, text=True, timeout=30, env=environ)
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1
    assert "Java 17" in ended.stderr


class SlowJob:
    """A query whose processes come up when the test says so."""

    name = "slow"
    batch = 3

    def __init__(self) -> None:
        self.is_running = self.is_answering = False
        self.aside: dict[str, dict[str, str]] = {}

    def start(self) -> None:
        self.is_running = True

    def observe(self) -> int:
        return 0

    def look_behind(self, now: datetime.datetime) -> None:
        """Nothing lies behind."""

    def finish(self) -> None:
        self.is_running = False

    def put_aside(self, found: dict[str, dict[str, str]]) -> None:
        self.aside = found


def test_queries_start_one_after_the_other() -> None:
    """The second when the first has answered, or takes so long that it must be at work."""
    jobs = [SlowJob(), SlowJob(), SlowJob()]
    drivers = [Driver(cast(Job, job)) for job in jobs]

    def running(now: float) -> list[bool]:
        for driver in drivers:
            driver.step(now, may_start=not any(other.is_starting(now) for other in drivers))
        return [job.is_running for job in jobs]

    assert running(1.0) == [True, False, False]
    assert running(2.0) == [True, False, False]
    jobs[0].is_answering = True
    assert running(3.0) == [True, True, False]
    assert running(3.0 + START_SECONDS) == [True, True, True]


class FailingJob(SlowJob):
    """A query that cannot even be started, for a reason that may pass."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    def start(self) -> None:
        raise self._error


def test_what_may_heal_is_waited_for_however_long_it_takes() -> None:
    """Days of a full disk or a service that is away; what does not heal stops the program."""
    driver = Driver(cast(Job, FailingJob(errors.Wait(errors.DISK_FULL, "no room"))))
    now, tries = 0.0, 0
    while tries < 3000:
        driver.step(now, may_start=True)
        tries += driver.has_failed
        now += RETRY_SECONDS_MAX
    assert (driver.waiting, driver.is_done) == ("no room", False)
    stopping = Driver(cast(Job, FailingJob(errors.Stop(errors.TABLE_UNFIT, "another kind"))))
    with pytest.raises(errors.Stop, match=errors.TABLE_UNFIT):
        stopping.step(0.0, may_start=True)


class PoisonedJob(SlowJob):
    """A query that fails on one batch until a message of it is set aside."""

    def __init__(self, poison: dict[str, dict[str, str]], sentence: str = "ValueError: 0x7f1: message 7") -> None:
        super().__init__()
        self._poison, self._sentence = poison, sentence
        self.searches = 0
        self.starts = 0

    def start(self) -> None:
        self.starts += 1
        self.is_running = bool(self.aside)
        self.is_answering = self.is_running

    def failure(self) -> tuple[str | None, str] | None:
        return None, self._sentence

    def search(self) -> PoisonedJob:
        self.searches += 1
        self._steps = 3
        return self

    trials = 2

    @property
    def found(self) -> dict[str, dict[str, str]]:
        return self._poison

    def step(self) -> bool:
        self._steps -= 1
        return self._steps == 0


def steps(driver: Driver, count: int, now: float = 0.0) -> float:
    for _ in range(count):
        now += RETRY_SECONDS_MAX
        driver.step(now, may_start=True)
    return now


def test_a_batch_that_fails_twice_for_one_reason_is_searched_for_the_message() -> None:
    """One trial a step, so that other pipelines are looked after; then it runs on."""
    job = PoisonedJob({"a/t": {"0a": "ValueError"}})
    driver = Driver(cast(Job, job))
    now = steps(driver, 4)
    assert (job.starts, job.searches) == (2, 1)
    steps(driver, 1, now)
    assert "parts tried" in driver.waiting
    steps(driver, 3, now + 50)
    assert job.aside == {"a/t": {"0a": "ValueError"}}
    assert (job.starts, job.is_running, driver.stopped) == (3, True, None)


def test_a_failure_that_no_message_explains_stops_in_the_end_with_its_whole_reason() -> None:
    """Five more tries for one cause; by itself it counts, not together with others."""
    sentence = "ValueError: " + "why " * 100
    job = PoisonedJob({}, sentence)
    driver = Driver(cast(Job, job))
    with pytest.raises(errors.Stop, match=errors.QUERY_FAILED) as stopped:
        steps(driver, 100)
    assert sentence in str(stopped.value)
    assert (job.searches, job.starts) == (1, UNKNOWN_FAILURES_MAX + 1)


def test_a_pipeline_that_stopped_is_tried_again_later() -> None:
    """Somebody may have repaired it, while others ran."""
    job = SlowJob()
    driver = Driver(cast(Job, job))
    driver.stop(errors.Stop(errors.TABLE_BEHIND, "gone"), 10.0)
    assert (driver.waiting, driver.has_failed) == (f"{errors.TABLE_BEHIND}: gone", True)
    driver.step(10.0 + STOPPED_SECONDS - 1, may_start=True)
    assert not job.is_running
    driver.step(10.0 + STOPPED_SECONDS, may_start=True)
    assert (job.is_running, driver.stopped) == (True, None)


@pytest.mark.verify
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_poisoned_pipeline_stops_alone_and_says_why(messaging: MessagingService, tmp_path: Path) -> None:
    """The other takes in all there is; one message that breaks a transform is set aside, with its reason."""
    values = [f'messaging_url = "{messaging.url}"', 'security = "insecure"', 'trigger = "available-now"']
    (tmp_path / "own.py").write_text(
        "from pyspark.sql import functions as F\nfrom pyspark.sql.types import LongType\n\n"
        "def careful(rows):\n    def look(number):\n        if number == 7:\n"
        "            raise ValueError('seven is not for me')\n        return number\n"
        "    return rows.withColumn('looked', F.udf(look, LongType())('sequence'))\n"
    )
    for name in ("good", "behind", "poisoned"):
        topic = f"default/{tmp_path.name.replace('_', '-')[:40]}-{name}".lower()
        messaging.create(topic)
        messaging.publish(topic, [upstream_message(number) for number in range(20)])
        values += [
            "[[pipelines]]", f'name = "{name}"', f'topics = ["{topic}"]', f'table = "{tmp_path}/{name}"',
            f'checkpoint = "{tmp_path}/{name}-checkpoint"',
            *([f'transforms = ["{tmp_path}/own.py:careful"]'] if name == "poisoned" else []),
        ]  # fmt: skip
    (tmp_path / "behind").mkdir()
    (tmp_path / "behind" / "stranger.txt").write_text("no table")
    (tmp_path / "behind" / "_commits").mkdir()
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
    lines = [json.loads(line) for line in running.log.read_text().splitlines() if line.startswith("{")]
    [stopped] = [line for line in lines if line["event"] == "pipeline_stopped"]
    assert (stopped["pipeline"], stopped["code"]) == ("behind", errors.TABLE_UNFIT)


@pytest.mark.verify
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_service_that_comes_late_is_waited_for_and_sigterm_drains(tmp_path: Path) -> None:
    """Down, up, read, stopped: clear lines, no trace, exit 0, and a restart goes on."""
    messaging = MessagingService(tmp_path / "messaging")
    port = free_ports(1)[0]
    path = config(tmp_path, messaging.url, "default/t", trigger=0.2, http_listen=f"127.0.0.1:{port}", receipts=True)
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
            wait_until("it is ready", lambda: answered(port, "/readyz") == 200, seconds=10.0)
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as response:
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
def test_available_now_exits_0_when_all_is_committed(messaging: MessagingService, topic: str, tmp_path: Path) -> None:
    """For cron, and for checks from outside."""
    messaging.publish(topic, [upstream_message(number) for number in range(20)])
    path = config(tmp_path, messaging.url, topic, trigger="available-now")
    running = start("ingest", [*COMMAND, "--config", str(path)], tmp_path / "ingest.log")
    assert running.process.wait(SPARK_SECONDS) == 0, running.tail()
    assert pl.scan_delta(str(tmp_path / "rows")).collect().height == 20
