"""Ingest on a real kubelet: `ingest.spark.mode` to executors and back, a table in an object store, kills.

install, local ─► to executors ─► executor, driver, its Pod, kubelet killed ─► to local ─► compare ─► compact
      └── a producer publishes from here to the comparison ────────────────────────────────────────┘
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

from e2e.images.build import TAG
from e2e.story import compacting
from e2e.story.cluster import Cluster
from e2e.story.producing import PAGE, Producing
from e2e.story.store import BUCKET, REGION, Store
from tests.support.processes import wait_until

from fairlead_messaging.client.io.connections import Tls
from fairlead_messaging.client.io.sync_client import Client

T = TypeVar("T")

CHART = Path(__file__).resolve().parents[2] / "charts" / "fairlead"
NAMESPACE = "spark"
RELEASE = "fairlead"
DRIVER = f"{RELEASE}-ingest-0"
TABLE = f"s3://{BUCKET}/telemetry"
CHECKPOINT = f"s3://{BUCKET}/telemetry-checkpoint"
NODE_PORT = 30915
EXECUTORS = 2
INSTALL_SECONDS = 600
WAIT_SECONDS = 300.0


class Machine(Cluster, Protocol):
    """A cluster whose node can be hurt."""

    @property
    def host_address(self) -> str:
        """This machine, as Pods see it."""

    def kill_containers(self, pod_uid: str) -> int:
        """kill -9 of all processes of a Pod; how many there were."""

    def kill_kubelet(self) -> None:
        """kill -9; the node starts it again."""


class OnExecutors:
    """One telling; `figures` fills as it goes."""

    def __init__(self, machine: Machine, store: Store, folder: Path, say: Callable[[str], None]) -> None:
        self.machine = machine
        self.store = store
        self.folder = folder
        self.say = say
        self.figures: dict[str, float] = {}
        self.producing: Producing | None = None

    def tell(self) -> None:
        """All chapters. Raises AssertionError (with what was seen) where one does not come true."""
        try:
            self.install()
            self.to_executors()
            self.executors_work()
            self.nothing_secret_shows()
            self.executor_killed()
            self.driver_killed()
            self.drivers_pod_deleted()
            self.kubelet_killed()
            self.to_local()
            self.compare()
            self.compacted()
            self.uninstall()
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.state()}") from None

    # --- chapters

    def install(self) -> None:
        """What a user types: two Secrets, values, helm install --wait. One Pod does all, its checkpoint on a volume."""
        self.machine.provide_volumes(["checkpoint"])
        self._apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        self._apply(*self.store.as_secrets(NAMESPACE))
        values = self.folder / "values.json"
        values.parent.mkdir(parents=True, exist_ok=True)
        values.write_text(json.dumps(self._values()))
        began = time.monotonic()
        self.machine.helm(
            "install", RELEASE, str(CHART), "--namespace", NAMESPACE, "--values", str(values), "--wait", "--timeout",
            f"{INSTALL_SECONDS}s",
        )  # fmt: skip
        self._figure("executors_install_wait_seconds", began)
        self.producing = Producing(self._client())
        self.producing.start()
        self._until_more_rows()

    def to_executors(self) -> None:
        """`helm upgrade`: the same StatefulSet, the same claim; the driver goes on where the Pod before it ended."""
        self._upgrade("to_executors", "ingest.spark.mode=kubernetes")

    def executors_work(self) -> None:
        """Each does tasks; their Pods may as little as ours."""
        began = time.monotonic()
        for name in self._until_new_executors(set()):
            self._until_it_does_tasks(name)
        self._until_more_rows()
        self._figure("executors_install_to_rows_seconds", began)
        for pod in self._executors():
            spec, (container,) = pod["spec"], pod["spec"]["containers"]
            assert spec["securityContext"]["runAsNonRoot"] and spec["automountServiceAccountToken"] is False, spec
            held = container["securityContext"]
            assert held["readOnlyRootFilesystem"] and held["capabilities"] == {"drop": ["ALL"]}, held
            assert pod["metadata"]["ownerReferences"][0]["name"] == DRIVER, pod["metadata"]
        said = self.machine.helm("test", RELEASE, "--namespace", NAMESPACE)
        assert "Succeeded" in said, f"helm test did not say so: {said}"

    def nothing_secret_shows(self) -> None:
        """Neither the store's key nor Spark's secret is in a log, a ConfigMap or a Pod as the API shows it."""
        held = json.loads(self._kubectl("get", "secret", f"{RELEASE}-ingest-spark", "-o", "json"))["data"]["secret"]
        key = json.loads(self._kubectl("get", "secret", f"{RELEASE}-ingest-tls", "-o", "json"))["data"]["tls.key"]
        words = {
            "the store's key": self.store.secret, "Spark's secret": base64.b64decode(held).decode(), "the same": held,
            "the job's key": base64.b64decode(key).decode().splitlines()[1], "the same key": key[-64:],
        }  # fmt: skip
        shown = {
            "Pods and ConfigMaps": self._kubectl("get", "pod,configmap,service,statefulset", "-o", "json"),
            "events": self._kubectl("get", "events", "-o", "json"),
            **{name: self._log(name) for name in (DRIVER, *self._names())},
        }
        found = [f"{what} in {where}" for what, word in words.items() for where, text in shown.items() if word in text]
        assert not found, found
        self.say("no secret in Pods, ConfigMaps, events and logs")

    def executor_killed(self) -> None:
        """The driver asks for another."""
        before = self._uids()
        began = time.monotonic()
        assert self.machine.kill_containers(min(before)), "nothing was killed"
        self._until_new_executors({min(before)})
        self._figure("executor_killed_to_two_again_seconds", began)
        self._until_more_rows()

    def driver_killed(self) -> None:
        """Its container is started again, in the same Pod; the former executors go, as Pods as well."""
        before = self._uids()
        driver = json.loads(self._kubectl("get", "pod", DRIVER, "-o", "json"))["metadata"]["uid"]
        began = time.monotonic()
        assert self.machine.kill_containers(driver), "nothing was killed"
        self._until_new_executors(before)
        self._until("the former executors' Pods are gone", lambda: not self._uids(any_phase=True) & before)
        self._until_more_rows()
        self._figure("driver_killed_to_rows_seconds", began)

    def drivers_pod_deleted(self) -> None:
        """As when its node is lost: the StatefulSet makes another; what the former owned is collected."""
        before = self._uids()
        began = time.monotonic()
        self._kubectl("delete", "pod", DRIVER, "--force", "--grace-period=0")
        self._until("the former executors' Pods are gone", lambda: not self._uids(any_phase=True) & before)
        self._until_new_executors(before)
        self._until_more_rows()
        self._figure("driver_pod_deleted_to_rows_seconds", began)

    def kubelet_killed(self) -> None:
        """What runs goes on; an executor that dies meanwhile is replaced."""
        victim = min(self._uids())
        began = time.monotonic()
        self.machine.kill_kubelet()
        assert self.machine.kill_containers(victim), "nothing was killed"
        self._until_new_executors({victim})
        self._until_more_rows()
        self._figure("kubelet_and_executor_killed_to_rows_seconds", began)

    def to_local(self) -> None:
        """And back, with another checkpoint: the table's own position counts. Nothing of executors is left."""
        former = self._uids()
        self._upgrade("to_local", f"ingest.spark.mode=local,ingest.checkpoint={CHECKPOINT}")
        self._until("no executor's Pod is left", lambda: not self._uids(any_phase=True))
        kinds = "role,rolebinding,serviceaccount,configmap,secret,service"
        left = [
            name for name in self._kubectl("get", kinds, "-o", "name").split() if "executor" in name or "spark" in name
        ]
        left += self._kubectl("get", "role", f"{RELEASE}-ingest", "--ignore-not-found", "-o", "name").split()
        assert former and not left, f"left of executors: {left}"
        pod = json.loads(self._kubectl("get", "pod", DRIVER, "-o", "json"))["spec"]
        assert pod["automountServiceAccountToken"] is False, pod
        self._until_more_rows()

    def compare(self) -> None:
        """Each message that was stored is one row, read from outside."""
        assert self.producing is not None
        published = self.producing.stop()
        seen: list[str] = []

        def all_there() -> bool:
            nonlocal seen
            if self.store.count(TABLE) >= len(published):
                seen = self.store.ids(TABLE)
            return set(published) <= set(seen)

        self._until(f"all {len(published)} messages are rows", all_there)
        assert sorted(seen) == sorted(published), f"{len(seen)} rows for {len(published)} messages"
        self.say(f"{len(published)} messages published meanwhile, {len(seen)} rows, none twice")
        self.figures["executors_rows"] = len(seen)

    def compacted(self) -> None:
        """The CronJob, run now: the table is in the store, so it needs no volume and waits for no node."""
        rows = sorted(self.store.ids(TABLE))
        began = time.monotonic()
        before, after = compacting.fewer_files(self.machine, NAMESPACE, lambda: self.store.files(TABLE))
        assert sorted(self.store.ids(TABLE)) == rows, "compaction changed the rows"
        self.say(f"compaction: {before} files became {after}, {len(rows)} rows as before")
        self._figure("compaction_in_store_seconds", began)

    def uninstall(self) -> None:
        """Executors go with their driver."""
        self.machine.helm(
            "upgrade", RELEASE, str(CHART), "--namespace", NAMESPACE, "--reuse-values", "--set",
            "uninstall.removeCustomResources=true,certificates.keepAuthorities=false",
        )  # fmt: skip
        self.machine.helm("uninstall", RELEASE, "--namespace", NAMESPACE, "--wait")
        self._until("no Pod is left", lambda: not json.loads(self._kubectl("get", "pod", "-o", "json"))["items"])

    # --- helpers

    def state(self) -> str:
        """The state that helps to understand a failure."""
        pods = self._kubectl("get", "pod", "-o", "wide", check=False)
        logs = (f"--- {name}\n{self._log(name, '--tail=30')}" for name in (DRIVER, *self._names()))
        return "\n".join([pods, *logs])

    def _upgrade(self, name: str, values: str) -> None:
        before = self._kept()
        began = time.monotonic()
        self.machine.helm(
            "upgrade", RELEASE, str(CHART), "--namespace", NAMESPACE, "--reuse-values", "--set", values, "--wait",
            "--timeout", f"{INSTALL_SECONDS}s",
        )  # fmt: skip
        self._figure(f"{name}_wait_seconds", began)
        assert self._kept() == before, f"{name} made another StatefulSet or claim"
        self._until_more_rows()
        self._figure(f"{name}_rows_seconds", began)

    def _kept(self) -> list[str]:
        found = json.loads(self._kubectl("get", "statefulset,persistentvolumeclaim", "-o", "json"))["items"]
        return sorted(each["metadata"]["uid"] for each in found)

    def _values(self) -> dict[str, Any]:
        return {
            "image": {"tag": TAG, "pullPolicy": "Never"},
            "messaging": {
                "persistence": {"type": "emptyDir", "size": "1Gi"},
                "service": {"type": "NodePort", "nodePort": NODE_PORT},
                "hosts": [self.machine.address],
            },
            "ingest": {
                "table": TABLE,
                "trigger": 1,
                "persistence": {"type": "claim", "size": "1Gi", "storageClass": self.machine.storage_class},
                "compaction": {"enabled": True},
                "env": [{"name": "AWS_REGION", "value": REGION}],
                "envFrom": [{"secretRef": {"name": "store-key"}}],
                "storeAuthority": {"secretName": "store-authority"},
                # The story has two cores for everything.
                "spark": {"executors": {"instances": EXECUTORS, "cpuRequest": "100m", "memory": "512m"}},
                # A page of messages is work for two.
                "config": {"storage": {"endpoint_url": self.store.url}, "limits": {"split_bytes": 1000}},
            },
        }

    def _client(self) -> Client:
        """As the hub, which is who publishes."""
        data = json.loads(self._kubectl("get", "secret", f"{RELEASE}-hub-tls", "-o", "json"))["data"]
        for name in ("ca.crt", "tls.crt", "tls.key"):
            path = self.folder / name
            path.touch(mode=0o600)
            path.write_bytes(base64.b64decode(data[name]))
        tls = Tls(ca=str(self.folder / "ca.crt"), cert=str(self.folder / "tls.crt"), key=str(self.folder / "tls.key"))
        return Client(f"https://{self.machine.address}:{NODE_PORT}", tls=tls)

    def _kubectl(self, *arguments: str, check: bool = True) -> str:
        return self.machine.kubectl("-n", NAMESPACE, *arguments, check=check)

    def _apply(self, *objects: dict[str, Any]) -> None:
        listed = {"apiVersion": "v1", "kind": "List", "items": objects}
        self.machine.kubectl("apply", "-f", "-", stdin=json.dumps(listed))

    def _log(self, pod: str, *more: str) -> str:
        return self._kubectl("logs", pod, *more, check=False)

    def _executors(self, *, any_phase: bool = False) -> list[dict[str, Any]]:
        found = json.loads(self._kubectl("get", "pod", "-l", "spark-role=executor", "-o", "json"))["items"]
        return [pod for pod in found if any_phase or _runs(pod)]

    def _names(self) -> list[str]:
        return [pod["metadata"]["name"] for pod in self._executors(any_phase=True)]

    def _uids(self, *, any_phase: bool = False) -> set[str]:
        return {pod["metadata"]["uid"] for pod in self._executors(any_phase=any_phase)}

    def _until_new_executors(self, former: set[str]) -> list[str]:
        def two() -> list[str]:
            found = [pod for pod in self._executors() if pod["metadata"]["uid"] not in former]
            return [pod["metadata"]["name"] for pod in found] if len(found) >= EXECUTORS else []

        return self._until("as many executors run as were asked for", two)

    def _until_it_does_tasks(self, name: str) -> None:
        self._until(f"{name} does tasks", lambda: "Finished task" in self._log(name))

    def _until_more_rows(self) -> None:
        """What is published now becomes a row."""
        assert self.producing is not None
        wanted = len(self.producing.ids) + PAGE
        self._until("what was published is a row", lambda: self.store.count(TABLE) >= wanted)

    def _figure(self, name: str, began: float) -> None:
        self.figures[name] = round(time.monotonic() - began, 1)
        self.say(f"{name.removesuffix('_seconds').replace('_', ' ')}: {self.figures[name]} s")

    def _until(self, what: str, condition: Callable[[], T]) -> T:
        return wait_until(what, condition, seconds=WAIT_SECONDS, every=0.5)


def _runs(pod: dict[str, Any]) -> bool:
    statuses = pod["status"].get("containerStatuses", [])
    return not pod["metadata"].get("deletionTimestamp") and any(status["ready"] for status in statuses)
