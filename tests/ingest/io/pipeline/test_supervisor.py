"""One pipeline kept going: started, started again, searched, stopped, tried again."""

from __future__ import annotations

import datetime
from typing import cast

import pytest

from fairlead_ingest import errors
from fairlead_ingest.io.pipeline.job import Job
from fairlead_ingest.io.pipeline.supervisor import START_SECONDS, STOPPED_SECONDS, Supervisor
from fairlead_ingest.pipeline.failures import DENIED_SECONDS, RETRY_SECONDS_MAX, UNKNOWN_FAILURES_MAX


class SlowJob:
    """A query whose processes come up when the test says so."""

    name = "slow"
    batch = 3

    def __init__(self) -> None:
        self.is_running = self.is_answering = False
        self.aside: dict[str, dict[str, str]] = {}
        self.more_executors = False
        self.starts = 0

    def start(self) -> None:
        self.is_running = True
        self.starts += 1

    def has_more_executors(self, now: datetime.datetime) -> bool:
        return self.more_executors

    def pause(self) -> None:
        self.is_running = self.more_executors = False

    def observe(self) -> int:
        return 0

    def measure_lag(self, now: datetime.datetime) -> None:
        """Nothing is behind."""

    def finish(self) -> None:
        self.is_running = False

    def put_aside(self, found: dict[str, dict[str, str]]) -> None:
        self.aside = found


def test_queries_start_one_after_the_other():
    """The second when the first has answered, or takes so long that it must be at work."""
    jobs = [SlowJob(), SlowJob(), SlowJob()]
    supervisors = [Supervisor(cast(Job, job)) for job in jobs]

    def running(now: float) -> list[bool]:
        for supervisor in supervisors:
            supervisor.step(now, may_start=not any(other.is_starting(now) for other in supervisors))
        return [job.is_running for job in jobs]

    assert running(1.0) == [True, False, False]
    assert running(2.0) == [True, False, False]
    jobs[0].is_answering = True
    assert running(3.0) == [True, True, False]
    assert running(3.0 + START_SECONDS) == [True, True, True]


def test_a_query_is_started_again_where_more_executors_came():
    job = SlowJob()
    supervisor = Supervisor(cast(Job, job))
    supervisor.step(1.0, may_start=True)
    job.is_answering = job.more_executors = True
    supervisor.step(2.0, may_start=True)
    assert not job.is_running and not supervisor.has_failed
    supervisor.step(3.0, may_start=True)
    assert job.is_running and job.starts == 2


class FailingJob(SlowJob):
    """A query that cannot even be started, for a reason that may pass."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    def start(self) -> None:
        raise self._error


def test_what_may_heal_is_waited_for_however_long_it_takes():
    """Days of a full disk or a service that is away; what does not heal stops the program."""
    supervisor = Supervisor(cast(Job, FailingJob(errors.Wait(errors.DISK_FULL, "no room"))))
    now, tries = 0.0, 0
    while tries < 3000:
        supervisor.step(now, may_start=True)
        tries += supervisor.has_failed
        now += RETRY_SECONDS_MAX
    assert (supervisor.waiting, supervisor.is_done) == ("no room", False)
    stopping = Supervisor(cast(Job, FailingJob(errors.Stop(errors.TABLE_UNFIT, "another kind"))))
    with pytest.raises(errors.Stop, match=errors.TABLE_UNFIT):
        stopping.step(0.0, may_start=True)


def test_an_error_of_any_type_is_this_pipelines_own():
    """It is retried like any failure of unknown cause, and stops in the end; only a lost Spark concerns the others."""
    job = FailingJob(KeyError("defect"))
    job.batch = -1
    supervisor = Supervisor(cast(Job, job))
    with pytest.raises(errors.Stop, match=rf"{errors.QUERY_FAILED}: KeyError: 'defect' \(test_supervisor.py line "):
        steps(supervisor, 100)
    with pytest.raises(ConnectionRefusedError):
        Supervisor(cast(Job, FailingJob(ConnectionRefusedError("the JVM is gone")))).step(0.0, may_start=True)


def test_a_pipeline_whose_query_cannot_be_ended_is_stopped_all_the_same():
    class Stuck(SlowJob):
        def finish(self) -> None:
            raise KeyError("defect")

    supervisor = Supervisor(cast(Job, Stuck()))
    supervisor.stop(errors.Stop(errors.TABLE_BEHIND, "gone"), 10.0)
    assert supervisor.stopped is not None


class JobWithBadMessage(SlowJob):
    """A query that fails on one batch until a message of it is set aside."""

    def __init__(self, bad: dict[str, dict[str, str]], sentence: str = "ValueError: 0x7f1: message 7") -> None:
        super().__init__()
        self._bad, self._sentence = bad, sentence
        self.searches = 0
        self.starts = 0

    def start(self) -> None:
        self.starts += 1
        self.is_running = bool(self.aside)
        self.is_answering = self.is_running

    def failure(self) -> tuple[str | None, str] | None:
        return None, self._sentence

    def search(self) -> JobWithBadMessage:
        self.searches += 1
        self._steps = 3
        return self

    trials = 2

    @property
    def found(self) -> dict[str, dict[str, str]]:
        return self._bad

    def step(self) -> bool:
        self._steps -= 1
        return self._steps == 0


def steps(supervisor: Supervisor, count: int, now: float = 0.0) -> float:
    for _ in range(count):
        now += RETRY_SECONDS_MAX
        supervisor.step(now, may_start=True)
    return now


def test_a_batch_that_fails_twice_for_one_reason_is_searched_for_the_message():
    """One trial a step, so that other pipelines are looked after; then it runs on."""
    job = JobWithBadMessage({"a/t": {"0a": "ValueError"}})
    supervisor = Supervisor(cast(Job, job))
    now = steps(supervisor, 4)
    assert (job.starts, job.searches) == (2, 1)
    steps(supervisor, 1, now)
    assert "parts tried" in supervisor.waiting
    steps(supervisor, 3, now + 50)
    assert job.aside == {"a/t": {"0a": "ValueError"}}
    assert (job.starts, job.is_running, supervisor.stopped) == (3, True, None)


def test_a_failure_that_no_message_explains_stops_in_the_end_with_its_whole_reason():
    """Five more tries for one cause; by itself it counts, not together with others."""
    sentence = "ValueError: " + "why " * 100
    job = JobWithBadMessage({}, sentence)
    supervisor = Supervisor(cast(Job, job))
    with pytest.raises(errors.Stop, match=errors.QUERY_FAILED) as stopped:
        steps(supervisor, 100)
    assert sentence in str(stopped.value)
    assert (job.searches, job.starts) == (1, UNKNOWN_FAILURES_MAX + 1)


def test_a_pipeline_that_stopped_is_tried_again_later():
    job = SlowJob()
    supervisor = Supervisor(cast(Job, job))
    supervisor.stop(errors.Stop(errors.TABLE_BEHIND, "gone"), 10.0)
    assert (supervisor.waiting, supervisor.has_failed) == (f"{errors.TABLE_BEHIND}: gone", True)
    supervisor.step(10.0 + STOPPED_SECONDS - 1, may_start=True)
    assert not job.is_running
    supervisor.step(10.0 + STOPPED_SECONDS, may_start=True)
    assert (job.is_running, supervisor.stopped) == (True, None)


class Refused(SlowJob):
    """A query whose store refuses the credentials from some time on."""

    refuses = False

    def start(self) -> None:
        if self.refuses:
            raise errors.Stop(errors.STORE_DENIED, "ExpiredToken: the token has expired")
        self.is_running = self.is_answering = True

    def observe(self) -> int:
        if self.refuses:
            self.is_running = False
            raise errors.Stop(errors.STORE_DENIED, "ExpiredToken: the token has expired")
        return 1


def test_credentials_that_end_in_mid_run_are_waited_for_and_the_wait_is_said():
    """Renewed in time the job goes on; never renewed it stops, and so does one that never had good ones."""
    job = Refused()
    supervisor = Supervisor(cast(Job, job))
    for now in (0.0, 1.0):
        supervisor.step(now, may_start=True)
    job.refuses = True
    now = 2.0
    while now < DENIED_SECONDS - 60:
        supervisor.step(now, may_start=True)
        assert "ExpiredToken" in supervisor.waiting and "for renewed ones" in supervisor.waiting
        now += RETRY_SECONDS_MAX
    job.refuses = False
    for _ in range(2):
        supervisor.step(now := now + RETRY_SECONDS_MAX, may_start=True)
    assert supervisor.waiting == "" and job.is_running
    job.refuses = True
    with pytest.raises(errors.Stop, match=errors.STORE_DENIED):
        while now < 3 * DENIED_SECONDS:
            supervisor.step(now := now + RETRY_SECONDS_MAX, may_start=True)
    never = Refused()
    never.refuses = True
    with pytest.raises(errors.Stop, match=errors.STORE_DENIED):
        Supervisor(cast(Job, never)).step(0.0, may_start=True)
