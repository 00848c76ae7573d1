"""Logs of the Pods that the chart makes, line by line, as the kubelet keeps them."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from fairlead_cli.cluster import collections
from fairlead_cli.cluster.collections import Item

if TYPE_CHECKING:
    from fairlead_hub.io.cluster.kube import Kube

OURS = "app.kubernetes.io/part-of=fairlead"
COMPONENT = "app.kubernetes.io/component"
SILENCE_SECONDS = 3600.0
PAUSE_SECONDS = 1.0
WAITING_MAX = 1000
"""Lines that wait for who reads; then the Pods wait."""
LOG_BYTES_MAX = 64 * 1024 * 1024
"""Of one Pod, where it is not followed."""


class LogLine(NamedTuple):
    """``at`` is when the kubelet took it, RFC 3339 with nanoseconds: it sorts as text."""

    at: str
    pod: str
    text: str


class LogSource(NamedTuple):
    """One container of one Pod."""

    namespace: str
    pod: str
    container: str

    @property
    def path(self) -> str:
        return f"api/v1/namespaces/{self.namespace}/pods/{self.pod}/log"


async def sources(kube: Kube, namespace: str | None, component: str | None, node: str | None) -> list[LogSource]:
    """Containers that have run, by namespace and name; ``node``: of Pods on this node alone."""
    selector = OURS + (f",{COMPONENT}={component}" if component else "")
    path = f"api/v1/namespaces/{namespace}/pods" if namespace else "api/v1/pods"
    query = {"labelSelector": selector, **({"fieldSelector": f"spec.nodeName={node}"} if node else {})}
    found = [
        LogSource(str(pod["metadata"]["namespace"]), str(pod["metadata"]["name"]), name)
        for pod in await collections.items(kube, path, **query)
        for name in _started(pod)
    ]
    return sorted(found)


def _started(pod: Item) -> list[str]:
    """Names of containers of which there is a log."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return [
        str(each["name"]) for each in statuses if each.get("restartCount") or "waiting" not in (each.get("state") or {})
    ]


async def read(kube: Kube, source: LogSource, query: Mapping[str, str]) -> list[LogLine]:
    """What there is.  Raises ``ApiRefused``, ``ApiUnavailable``."""
    asked = {"container": source.container, "timestamps": "true", "limitBytes": str(LOG_BYTES_MAX), **query}
    content = await kube.get(source.path, **asked)
    return [line for raw in content.split(b"\n") if (line := _line(source, raw)) is not None]


async def follow(kube: Kube, found: list[LogSource], query: Mapping[str, str]) -> AsyncIterator[list[LogLine]]:
    """What there is and what comes, of all of them; an empty list where nothing came for a while.

    Ends when no container runs any more.
    """
    queue: asyncio.Queue[LogLine | Exception] = asyncio.Queue(WAITING_MAX)
    tasks = [asyncio.create_task(_follow(kube, each, query, queue)) for each in found]
    try:
        while not queue.empty() or not all(task.done() for task in tasks):
            batch: list[LogLine] = []
            with contextlib.suppress(TimeoutError):
                batch.append(_or_raise(await asyncio.wait_for(queue.get(), PAUSE_SECONDS)))
            while not queue.empty():
                batch.append(_or_raise(queue.get_nowait()))
            yield sorted(batch)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _follow(
    kube: Kube, source: LogSource, query: Mapping[str, str], queue: asyncio.Queue[LogLine | Exception]
) -> None:
    """A broken line is opened again where it was; a container that ended has no more to say."""
    from fairlead_hub.io.cluster.api_error import ApiRefused, ApiUnavailable

    asked = {"container": source.container, "timestamps": "true", "follow": "true", **query}
    last, of_last = "", 0
    while True:
        seen = of_last  # lines of that moment which come again
        try:
            async for raw in kube.lines(source.path, asked, SILENCE_SECONDS):
                line = _line(source, raw)
                if line is None or line.at < last:
                    continue
                if line.at == last and seen:
                    seen -= 1
                    continue
                last, of_last = line.at, of_last + 1 if line.at == last else 1
                await queue.put(line)
            return
        except ApiUnavailable:
            await asyncio.sleep(PAUSE_SECONDS)
        except ApiRefused as error:
            await queue.put(error)
            return
        if last:
            asked.pop("tailLines", None)
            asked.pop("sinceSeconds", None)
            asked["sinceTime"] = f"{last[:19]}Z"  # whole seconds: what was seen of this one is left out by ``last``


def _line(source: LogSource, raw: bytes) -> LogLine | None:
    at, _, text = raw.decode(errors="replace").partition(" ")
    return LogLine(_utc(at), source.pod, text) if at else None


def _utc(at: str) -> str:
    """With nine digits and in UTC, so that times sort as text; what is no time stays as it is."""
    try:
        moment = datetime.datetime.fromisoformat(at).astimezone(datetime.UTC)
    except ValueError:
        return at
    fraction = at.partition(".")[2].rstrip("Z").partition("+")[0].partition("-")[0]
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{fraction[:9].ljust(9, '0')}Z"


def _or_raise(found: LogLine | Exception) -> LogLine:
    if isinstance(found, Exception):
        raise found
    return found
