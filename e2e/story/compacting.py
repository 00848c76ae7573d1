"""Compaction by the chart's CronJob, started by hand: fewer files, the same rows."""

from __future__ import annotations

import json
from collections.abc import Callable

from e2e.story.cluster import Cluster
from tests.support.processes import wait_until

JOB = "compact-now"
CRON_JOB = "fairlead-compaction"
WAIT_SECONDS = 300.0


def run(cluster: Cluster, namespace: str) -> str:
    """A Job of the CronJob's template, to its end; what it said. Raises AssertionError where it fails."""

    def kubectl(*arguments: str, check: bool = True) -> str:
        return cluster.kubectl("-n", namespace, *arguments, check=check)

    def log() -> str:
        texts = (kubectl("logs", f"job/{JOB}", "-c", name, check=False) for name in ("compact", "vacuum"))
        return "\n".join([kubectl("get", "pod", "-l", f"job-name={JOB}", check=False), *texts])

    def ended() -> str:
        status = json.loads(kubectl("get", "job", JOB, "-o", "json")).get("status", {})
        return next((each["type"] for each in status.get("conditions", ()) if each["status"] == "True"), "")

    kubectl("create", "job", JOB, f"--from=cronjob/{CRON_JOB}")
    how = wait_until("the compaction ends", ended, seconds=WAIT_SECONDS, every=0.5, describe=log)
    said = log()
    assert how in ("Complete", "SuccessCriteriaMet"), f"the compaction is {how}: {said}"
    kubectl("delete", "job", JOB)
    return said


def fewer_files(cluster: Cluster, namespace: str, files: Callable[[], int]) -> tuple[int, int]:
    """Files of the table before and after; the job may append meanwhile, so several became fewer, not one."""
    before = files()
    said = run(cluster, namespace)
    after = files()
    assert before > after > 0, f"{before} files became {after}: {said}"
    return before, after
