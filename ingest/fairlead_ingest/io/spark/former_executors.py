"""Executors that a driver before this one has left in Kubernetes.

A driver's Pod owns its executors, so they go with it.  A container that is killed is started again in the same Pod:
the executors of the process before lost their driver and end by themselves, but as Pods they would stay for ever.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

from fairlead_ingest import errors
from fairlead_ingest.spark_cluster import KUBERNETES
from fairlead_wire.io import logs

log = logs.get("ingest.executors")
ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
DRIVER: Final = "spark.kubernetes.driver.pod.name"
NAMESPACE: Final = "spark.kubernetes.namespace"
SELECTOR: Final = "spark-role=executor"
_SECONDS: Final = 10.0
_ANSWER_BYTES_MAX: Final = 32 << 20


def remove(master: str, conf: Mapping[str, str], account: Path = ACCOUNT, *, host: str | None = None) -> int:
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
        for name in owned(api.call("GET", f"{pods}?labelSelector={quote(SELECTOR)}"), driver):
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


def owned(pods: Mapping[str, Any], driver: str) -> Iterator[str]:
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
