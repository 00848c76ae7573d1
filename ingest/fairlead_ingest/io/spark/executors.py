"""The executors of a job: too few, more than a query counts on, or left behind by a driver before this one.

``ExecutorPresence``: a restarted standalone master does not know the application. It has ended the executors, and the
driver would wait for others forever.

``ExecutorWatcher``: the number of tasks in a batch is fixed when its query starts, but a cluster's executors come one
after the other, and a worker that was away comes back. Fewer than before need no action: each then runs several tasks.

``remove_former_executors``: in Kubernetes a driver's Pod owns its executors, so they are deleted with it. A container
that is killed is restarted in the same Pod: the executors of the process before lost their driver and end by
themselves, but their Pods would stay forever.
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
PRESENCE_LOOK: Final = datetime.timedelta(seconds=10)
# A master that remembers applications has given others by then; one that has none to give is asked again.
GONE: Final = datetime.timedelta(seconds=60)
# The same before the first batch, where a cluster that others use has perhaps none that is free: who asks anew is the
# last in the master's queue.
GONE_AT_START: Final = datetime.timedelta(seconds=300)
_COME_AND_GO: Final = "spark.dynamicAllocation.enabled"


class ExecutorPresence:
    """Of one session on a standalone master. Not thread-safe."""

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
        """Raises ``SparkAway`` where no executor has been there for so long."""
        if not self._applies or (self._next is not None and now < self._next):
            return
        self._next = now + PRESENCE_LOOK
        if executors(self._session):
            self._none_since = None
        elif self._none_since is None:
            self._none_since = now
        elif now - self._none_since >= self._gone:
            raise SparkAway(
                f"no executor for {self._gone.seconds} s: Spark's master was started anew and does not know this"
                " application any more, or has no worker; it is asked for executors again"
            )


# How often to check; more executors must be there at two checks in a row, since one is often followed by others.
LOOK: Final = datetime.timedelta(seconds=10)


class ExecutorWatcher:
    """Of one query. Of a Connect server it knows only what there was at the start. Not thread-safe."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._counts_on = 0
        self._seen = 0
        self._next: datetime.datetime | None = None

    def start(self, tasks: int) -> None:
        """The query that starts now cuts its batches into so many."""
        self._counts_on = self._seen = tasks
        self._next = None

    def have_come(self, now: datetime.datetime) -> int:
        """How many tasks could run at once since the query would have to start again for it; 0 where it need not."""
        if self._next is None:
            self._next = now + LOOK
        if now < self._next or connect.is_remote(self._session) or is_local(self._session):
            return 0
        self._next = now + LOOK
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
    """Delete the Pods of executors that the driver's Pod owns, before Spark asks for new ones; how many.

    Nothing to do where ``master`` is not Kubernetes or no driver's Pod is named.  One that cannot be deleted is logged:
    it holds nothing that the job needs.  ``host``: this Pod's name; by default this machine's, as in Pods.  Raises
    ``Stop`` in a second Pod of the driver's StatefulSet: the executors are those of the first, and at work.
    """
    driver, namespace = conf.get(DRIVER), conf.get(NAMESPACE)
    if not master.startswith(KUBERNETES) or not driver or not namespace or not (account / "token").exists():
        return 0
    own = socket.gethostname() if host is None else host
    if is_another_replica(own, driver):
        raise errors.Stop(
            errors.BAD_OPTION,
            f"this Pod is {own}, and {DRIVER} is {driver}, which has the executors: a job has one driver, set the"
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
        log.warning("former_executors_stay", reason=str(error) or type(error).__name__)
    if removed:
        log.info("former_executors_removed", count=removed)
    return removed


def is_another_replica(own: str, driver: str) -> bool:
    """Both are Pods of one StatefulSet, which differ by their number."""
    (set_of_own, _, number), (set_of_driver, _, first) = own.rpartition("-"), driver.rpartition("-")
    return bool(set_of_own) and set_of_own == set_of_driver and number != first and (number + first).isdecimal()


def owned_executors(pods: Mapping[str, Any], driver: str) -> Iterator[str]:
    """Names of the Pods in a PodList that belong to the Pod ``driver``."""
    for pod in pods.get("items", ()):
        owners = pod["metadata"].get("ownerReferences", ())
        if any(owner["kind"] == "Pod" and owner["name"] == driver for owner in owners):
            yield pod["metadata"]["name"]


class _Api:
    """The API server, by the Pod's own account."""

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
            return {}  # It went by itself meanwhile.
        if answer.status >= http.client.BAD_REQUEST:
            raise OSError(f"{method} {path.partition('?')[0]}: the API server answers {answer.status}")
        return json.loads(body)
