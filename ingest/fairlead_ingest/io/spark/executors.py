"""Watches the executors of a job: notices when all are lost or more have come, and removes those of a former driver.

``ExecutorPresence``: a restarted standalone master does not know the application and has ended its executors; the
driver would wait for new ones forever.

``ExecutorWatcher``: the number of tasks in a batch is fixed when its query starts, but a cluster's executors start one
by one, and workers may come back. Fewer executors than before need no action: each then runs several tasks.

``remove_former_executors``: on Kubernetes, a driver's Pod owns its executors' Pods, which are deleted with it. But a
killed container is restarted in the same Pod; the former executors then end by themselves, and their Pods would remain.
"""

from __future__ import annotations

import datetime
import http.client
import json
import socket
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

from pyspark.sql import SparkSession

from fairlead_ingest import errors
from fairlead_ingest.io.spark import connect
from fairlead_ingest.io.spark.connect import SparkAway
from fairlead_ingest.io.spark.session import executors, is_local, parallelism
from fairlead_ingest.spark_cluster import KUBERNETES, STANDALONE
from fairlead_wire.io import logs

# How often to check.
PRESENCE_INTERVAL: Final = datetime.timedelta(seconds=10)
# How long to wait without executors; a master that remembers the application has provided new ones by then.
GONE: Final = datetime.timedelta(seconds=60)
# The same before the first batch. It is longer, because a shared cluster may have no free executor yet, and a new
# application goes to the end of the master's queue.
GONE_AT_START: Final = datetime.timedelta(seconds=300)
_COME_AND_GO: Final = "spark.dynamicAllocation.enabled"


class ExecutorPresence:
    """Watches for the loss of all executors of a session on a standalone master. Not thread-safe."""

    def __init__(self, session: SparkSession, gone: datetime.timedelta = GONE) -> None:
        self._session = session
        self._gone = gone
        self._applies = (
            not connect.is_remote(session)
            and str(session.sparkContext.master).startswith(STANDALONE)
            and session.conf.get(_COME_AND_GO, "false") != "true"
        )
        self._next: datetime.datetime | None = None
        self._none_since: datetime.datetime | None = None

    def check(self, now: datetime.datetime) -> None:
        """Raise ``SparkAway`` if there has been no executor for too long."""
        if not self._applies or (self._next is not None and now < self._next):
            return
        self._next = now + PRESENCE_INTERVAL
        if executors(self._session):
            self._none_since = None
        elif self._none_since is None:
            self._none_since = now
        elif now - self._none_since >= self._gone:
            raise SparkAway(
                f"no executor for {self._gone.seconds} s: Spark's master was restarted and no longer knows this"
                " application, or it has no worker; asking it for executors again"
            )


# How often to check. The number must be the same at two checks in a row, since executors often come in groups.
WATCH_INTERVAL: Final = datetime.timedelta(seconds=10)


class ExecutorWatcher:
    """Watches for additional executors for one query, except on a Connect server. Not thread-safe."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._counts_on = 0
        self._seen = 0
        self._next: datetime.datetime | None = None

    def start(self, tasks: int) -> None:
        """Note that the query starts now, with this many tasks in a batch."""
        self._counts_on = self._seen = tasks
        self._next = None

    def have_come(self, now: datetime.datetime) -> int:
        """How many tasks could run at once if the query were restarted; 0 if that is not more than it uses."""
        if self._next is None:
            self._next = now + WATCH_INTERVAL
        if now < self._next or connect.is_remote(self._session) or is_local(self._session):
            return 0
        self._next = now + WATCH_INTERVAL
        before, self._seen = self._seen, parallelism(self._session)
        return self._seen if before == self._seen > self._counts_on else 0


log = logs.get("ingest.executors")
ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
DRIVER: Final = "spark.kubernetes.driver.pod.name"
NAMESPACE: Final = "spark.kubernetes.namespace"
SELECTOR: Final = "spark-role=executor"
_SECONDS: Final = 10.0
_ANSWER_BYTES_MAX: Final = 32 << 20


def remove_former_executors(
    master: str, conf: Mapping[str, str], account: Path = ACCOUNT, *, host: str | None = None
) -> int:
    """Delete the executor Pods that the driver's Pod owns, before Spark creates new ones; return how many.

    Does nothing if ``master`` is not Kubernetes or no driver Pod is named. A failure is only logged, because former
    Pods hold nothing the job needs. ``host`` is this Pod's name, by default the host name. Raises ``Stop`` in a second
    Pod of the driver's StatefulSet, since the first one is using the executors.
    """
    driver, namespace = conf.get(DRIVER), conf.get(NAMESPACE)
    if not master.startswith(KUBERNETES) or not driver or not namespace or not (account / "token").exists():
        return 0
    own = socket.gethostname() if host is None else host
    if is_another_replica(own, driver):
        raise errors.Stop(
            errors.BAD_OPTION,
            f"this Pod is {own}, but {DRIVER} is {driver}, which owns the executors; a job has one driver: set the"
            " StatefulSet's replicas to 1",
        )
    pods = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods"
    removed = 0
    try:
        api = _Api(master.removeprefix(KUBERNETES), account)
        for name in owned_executors(api.call("GET", f"{pods}?labelSelector={quote(SELECTOR)}"), driver):
            api.call("DELETE", f"{pods}/{quote(name, safe='')}")
            removed += 1
    except (OSError, http.client.HTTPException, ValueError) as error:
        log.warning("former_executors_not_removed", reason=str(error) or type(error).__name__)
    if removed:
        log.info("former_executors_removed", count=removed)
    return removed


def is_another_replica(own: str, driver: str) -> bool:
    """Whether both are Pods of one StatefulSet, with different numbers."""
    (set_of_own, _, number), (set_of_driver, _, first) = own.rpartition("-"), driver.rpartition("-")
    return bool(set_of_own) and set_of_own == set_of_driver and number != first and (number + first).isdecimal()


def owned_executors(pods: Mapping[str, Any], driver: str) -> Iterator[str]:
    """Names of the Pods in a PodList that belong to the Pod ``driver``."""
    for pod in pods.get("items", ()):
        owners = pod["metadata"].get("ownerReferences", ())
        if any(owner["kind"] == "Pod" and owner["name"] == driver for owner in owners):
            yield pod["metadata"]["name"]


class _Api:
    """A client of the API server with the Pod's service account."""

    def __init__(self, url: str, account: Path) -> None:
        self._url = urlsplit(url)
        self._token = (account / "token").read_text().strip()
        self._trust = ssl.create_default_context(cafile=str(account / "ca.crt"))

    def call(self, method: str, path: str) -> Any:
        host = self._url.hostname or ""
        connection = http.client.HTTPSConnection(host, self._url.port, timeout=_SECONDS, context=self._trust)
        try:
            connection.request(method, path, headers={"Authorization": f"Bearer {self._token}"})
            answer = connection.getresponse()
            body = answer.read(_ANSWER_BYTES_MAX)
        finally:
            connection.close()
        if method == "DELETE" and answer.status == http.client.NOT_FOUND:
            return {}  # it is already gone
        if answer.status >= http.client.BAD_REQUEST:
            raise OSError(f"{method} {path.partition('?')[0]}: the API server answered {answer.status}")
        return json.loads(body)
