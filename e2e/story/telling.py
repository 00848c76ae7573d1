"""The chapters, in order; each leaves the cluster as the next expects it and says what it saw, with seconds."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from e2e.images.build import TAG
from e2e.story import compacting, manifests, tokens
from e2e.story.cluster import Cluster
from e2e.story.in_pods import (
    CONTRACT,
    COUNT_FILES,
    COUNT_TYPED,
    FILES_OF_THE_HUB,
    PUBLISH_IN_POD,
    READ_IN_POD,
    READ_TABLE,
)
from e2e.story.installed import Installed
from e2e.story.manifests import SHOP
from e2e.story.outside import Outside
from tests.support.processes import wait_until

T = TypeVar("T")

ROOT = Path(__file__).resolve().parents[2]
CHARTS = ROOT / "charts"
NAMESPACE = "fairlead"
AUTHORITIES = [f"secret/{NAMESPACE}-authority-edge", f"secret/{NAMESPACE}-authority-internal"]
OUTSIDE = "outside"
JOINED = "joined"
NODE_PORT = 30900
MESSAGES = 1000
WHILE_AWAY = 100
INSTALL_SECONDS = 900
WAIT_SECONDS = 600.0
ROOMS = ("hub", "messaging", "ingest", "edge")
CRDS = tuple(
    f"{plural}.fairlead.dev"
    for plural in ("objectsyncs", "clusterobjectsyncs", "syncrules", "edgeroutes", "edgenodes", "jointokens")
)


class Story:
    """One telling on one cluster; `figures` fills as it goes."""

    def __init__(self, cluster: Cluster, folder: Path, say: Callable[[str], None]) -> None:
        self.cluster = cluster
        self.say = say
        self.figures: dict[str, float] = {}
        self.published: list[str] = []
        hub_url = f"wss://{cluster.address}:{NODE_PORT}"
        self.installed = Installed(cluster, NAMESPACE)
        self.outside = Outside(OUTSIDE, folder / OUTSIDE, hub_url)
        self.joined = Outside(JOINED, folder / JOINED, hub_url)

    def tell(self) -> None:
        """All chapters. Raises AssertionError (with what was seen) where one does not come true."""
        try:
            self.install()
            self.edge_as_a_pod()
            self.join_by_a_token()
            self.looked_at()
            self.upstream()
            self.compacted()
            self.at_rest()
            self.hub_killed()
            self.upgrade_and_rollback()
            self.uninstall()
            self.install_again_and_remove_everything()
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.state()}") from None
        finally:
            self.outside.stop()
            self.joined.stop()

    # --- chapters

    def install(self) -> None:
        """helm install --wait, and an object on an edge outside as early as that goes."""
        self.cluster.provide_volumes(["messaging", "ingest"])
        self.cluster.kubectl("label", "node", self.cluster.node, "node-role.kubernetes.io/edge=", "--overwrite")
        self._apply(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": OUTSIDE, "labels": {"node-role.kubernetes.io/edge": ""}},
            },
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SHOP}},
            manifests.menu("tomato"),
        )
        began = time.monotonic()
        with ThreadPoolExecutor(1) as pool:
            installing = pool.submit(self._helm_install)
            self._until(
                "the chart made the certificate of the node outside", lambda: self._take_certificate(installing)
            )
            self.outside.start()
            self._until("the definitions are there", lambda: self._apply(*manifests.rules()))
            self._until("the edge outside holds its first object", lambda: self._held_outside() == "tomato")
            self._figure("install_to_first_object_seconds", began)
            installing.result()
            self._figure("install_wait_seconds", began)
        said = self.cluster.helm("test", NAMESPACE, "--namespace", NAMESPACE)
        assert "Succeeded" in said, f"helm test did not say so: {said}"
        self.say("helm test succeeded")

    def edge_as_a_pod(self) -> None:
        """The second chart: an agent on a node of the cluster, which joins by a token and never needs it again."""
        began = time.monotonic()
        node = self.cluster.node
        token = tokens.create(self.cluster, self.joined.folder, node)
        self._apply(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": f"fairlead-join-{node}", "namespace": NAMESPACE},
                "stringData": {"token": token},
            }
        )
        self.cluster.helm(
            "install", "fairlead-edge", str(CHARTS / "fairlead-edge"), "--namespace", NAMESPACE, "--wait",
            "--timeout", f"{INSTALL_SECONDS}s", "--set", f"image.tag={TAG}", "--set", "image.pullPolicy=Never",
            "--set", f"certificates.source=token,certificates.nodes[0]={node}",
        )  # fmt: skip
        self._until("the edge in its Pod holds the object", lambda: self._held_in_pod() == "tomato")
        self._figure("edge_pod_install_to_object_seconds", began)
        # Records are written behind what they record.
        self._until("both edges' records say Synced", lambda: self.installed.synced() == {OUTSIDE, self.cluster.node})
        status = self.cluster.kubectl("exec", "-n", NAMESPACE, "deployment/fairlead-hub", "--", "fairlead", "status")
        assert OUTSIDE in status and self.cluster.node in status, f"fairlead status in the hub's Pod says: {status}"

        self.cluster.kubectl("delete", "secret", "-n", NAMESPACE, f"fairlead-join-{node}")
        agent = f"daemonset/fairlead-edge-{node}"
        self.cluster.kubectl("rollout", "restart", "-n", NAMESPACE, agent)
        self.cluster.kubectl("rollout", "status", "-n", NAMESPACE, agent, f"--timeout={WAIT_SECONDS:g}s")
        self._until("the edge in its Pod is back without the token", lambda: self._held_in_pod() == "tomato")

    def join_by_a_token(self) -> None:
        """A device that has only a token; the hub signs with the nodes' authority, and has no other key."""
        began = time.monotonic()
        token = tokens.create(self.cluster, self.joined.folder, JOINED)
        said = self.joined.join(token)
        assert f"joined as {JOINED}" in said, said
        self._figure("token_to_identity_seconds", began)
        self.joined.start()
        self._until("the edge that joined holds its first object", lambda: self._held_by(self.joined) == "tomato")
        self._figure("token_to_first_object_seconds", began)
        hub = ("exec", "-n", NAMESPACE, "deployment/fairlead-hub", "--", "python3", "-c", FILES_OF_THE_HUB)
        modes = json.loads(self.cluster.kubectl(*hub))
        assert modes == {"tls.crt": "440", "tls.key": "440"}, f"the hub's Pod has of authorities: {modes}"
        self.joined.stop()

    def looked_at(self) -> None:
        """`fairlead rollout` waits for the nodes, `fairlead logs` shows the logs of the Pods."""
        ask = functools.partial(tokens.ask, self.cluster, self.joined.folder)
        # Who was away at this moment is another chapter's; these two are connected, or about to be again.
        said = ask("rollout", "configmap/menu", "-n", SHOP, "--timeout", "5m")
        assert "is held by" in said, said
        lines = ask(
            "logs", "hub", "-n", NAMESPACE, "--event", "session_opened", "--tail", "10000", "-o", "json"
        ).splitlines()
        nodes = {json.loads(line)["node"] for line in lines}
        assert {OUTSIDE, self.cluster.node} <= nodes, f"the hub's log has session_opened of {nodes}"
        assert ask("logs", "messaging", "-n", NAMESPACE, "--tail", "5"), "messaging said nothing"
        self.say("fairlead logs and fairlead rollout work")

    def upstream(self) -> None:
        """A thousand messages from outside and some from the Pod, each once in the table."""
        began = time.monotonic()
        # Refused as a whole until the edge's first EdgeRoutes have arrived.
        self._until("the edge outside has its routes", self.outside.has_routes)
        for start in range(0, MESSAGES, 100):
            self.published += self.outside.publish([{"n": start + n} for n in range(100)])
        self.published += self._until(
            "the edge in its Pod takes messages", lambda: json.loads(self._in_edge_pod(PUBLISH_IN_POD))
        )
        self._until_all_rows()
        self._figure("messages_to_table_seconds", began)
        typed = int(self.installed.in_ingest_pod(COUNT_TYPED))
        assert typed == MESSAGES, f"the contract's column has {typed} values"

    def compacted(self) -> None:
        """The chart's CronJob, run now: on the volume that the job has mounted."""
        for number in range(2):  # with what is there three batches, of which midnight can part one from two
            self.published += self.outside.publish([{"compacted": number}])
            self._until_all_rows()
        began = time.monotonic()
        before, after = compacting.fewer_files(
            self.cluster, NAMESPACE, lambda: int(self.installed.in_ingest_pod(COUNT_FILES))
        )
        self.say(f"compaction: {before} files became {after}")
        self._figure("compaction_seconds", began)
        self._until_all_rows()

    def at_rest(self) -> None:
        """Memory of each Pod, as the kubelet sees it (working set)."""
        seen: dict[str, float] = {}

        def all_measured() -> bool:
            answer = self.cluster.kubectl("get", "--raw", f"/api/v1/nodes/{self.cluster.node}/proxy/stats/summary")
            for pod in json.loads(answer)["pods"]:
                name, used = pod["podRef"]["name"], pod.get("memory", {}).get("workingSetBytes", 0)
                room = next((room for room in ROOMS if name.startswith(f"fairlead-{room}-")), None)
                if room and used and pod["podRef"]["namespace"] == NAMESPACE:
                    seen[room] = used / 1e6
            return len(seen) == len(ROOMS)

        self._until("kubelet has measured every Pod", all_measured)
        self.figures |= {f"{room}_pod_megabytes": round(seen[room], 1) for room in ROOMS}
        self.say("at rest: " + ", ".join(f"{room} {seen[room]:.0f} MB" for room in ROOMS))

    def hub_killed(self) -> None:
        """The hub's Pod is killed; the next takes over, and nothing is lost in either direction."""
        self.installed.nothing_forbidden()
        began = time.monotonic()
        label = "app.kubernetes.io/component=hub"
        before = self.installed.pods(label)
        self.cluster.kubectl(
            "delete", "pod", "-n", NAMESPACE, "-l", label, "--force", "--grace-period=0", "--wait=false"
        )
        self._apply(manifests.menu("pumpkin"))
        self.published += self.outside.publish([{"away": n} for n in range(WHILE_AWAY)])
        self._until("another hub runs", lambda: bool(self.installed.pods(label) - before))
        self._until("the edge outside holds the change", lambda: self._held_outside() == "pumpkin")
        self._until("the edge in its Pod holds the change", lambda: self._held_in_pod() == "pumpkin")
        self._figure("hub_killed_to_change_on_edges_seconds", began)
        self._until_all_rows()

    def upgrade_and_rollback(self) -> None:
        """Changed values reach the hub and nothing else; certificates stay; a rollback takes the change back."""
        secrets = self.installed.certificates()
        began = time.monotonic()
        self._helm_upgrade("--set-json", 'hub.config={"record": {"flush_seconds": 0.5}}')
        self._figure("upgrade_wait_seconds", began)
        config = self.installed.hub_config()
        assert "flush_seconds = 0.5" in config, f"the upgrade did not reach hub.toml:\n{config}"
        assert self.installed.certificates() == secrets, "an upgrade that changed no name made new certificates"
        self._apply(manifests.menu("lentil"))
        self._until("a change goes down after the upgrade", lambda: self._held_outside() == "lentil")
        began = time.monotonic()
        self.cluster.helm(
            "rollback", NAMESPACE, "1", "--namespace", NAMESPACE, "--wait", "--timeout", f"{INSTALL_SECONDS}s"
        )
        self._figure("rollback_wait_seconds", began)
        assert "flush_seconds" not in self.installed.hub_config(), "the rollback left the change in hub.toml"
        assert self.installed.certificates() == secrets, "the rollback changed certificates"
        self._apply(manifests.menu("leek"))
        self._until("a change goes down after the rollback", lambda: self._held_outside() == "leek")
        self.installed.nothing_forbidden()

    def uninstall(self) -> None:
        """Helm's objects are deleted; the users' rules, routes and records stay."""
        self.cluster.helm("uninstall", "fairlead-edge", "--namespace", NAMESPACE, "--wait")
        self.cluster.helm("uninstall", NAMESPACE, "--namespace", NAMESPACE, "--wait")
        assert self.cluster.kubectl("get", "syncrule,edgeroutes", "-o", "name").split(), (
            "uninstall took custom resources"
        )
        # Kept on purpose: the authorities, without which no edge could come back.
        self._until("only the authorities are left", lambda: self.installed.left() == AUTHORITIES)
        self.say("uninstalled; custom resources and authorities are still there")

    def install_again_and_remove_everything(self) -> None:
        """The kept authorities make the old edge certificate good again; asked, uninstall takes the definitions too."""
        self._apply(manifests.menu("barley"))
        self._helm_upgrade("--install", "--set", "ingest.enabled=false,uninstall.removeCustomResources=true")
        self._until("the edge outside is back with its old certificate", lambda: self._held_outside() == "barley")
        self.outside.stop()
        self.cluster.helm("uninstall", NAMESPACE, "--namespace", NAMESPACE, "--wait")
        left = set(self.cluster.kubectl("get", "crd", "-o", "name").split())
        assert not [crd for crd in CRDS if f"customresourcedefinition.apiextensions.k8s.io/{crd}" in left], left
        self.say("uninstalled again; as asked, the custom resource definitions are gone too")

    # --- helpers

    def state(self) -> str:
        """The state that helps to understand a failure."""
        texts = [self.cluster.kubectl("get", "pod", "-A", "-o", "wide", check=False)]
        for room in ROOMS:
            label = f"app.kubernetes.io/component={room}"
            log = self.cluster.kubectl("logs", "-n", NAMESPACE, "-l", label, "--tail=8", check=False)
            texts.append(f"--- {room}\n{log}")
        return "\n".join([*texts, self.outside.tail()])

    def _figure(self, name: str, began: float) -> None:
        self.figures[name] = round(time.monotonic() - began, 1)
        self.say(f"{name.removesuffix('_seconds').replace('_', ' ')}: {self.figures[name]} s")

    def _until(self, what: str, condition: Callable[[], T]) -> T:
        return wait_until(what, condition, seconds=WAIT_SECONDS, every=0.2)

    def _values(self) -> dict[str, Any]:
        claim = {"storageClass": self.cluster.storage_class, "size": "2Gi"}
        return {
            "image": {"tag": TAG, "pullPolicy": "Never"},
            "certificates": {"edges": [OUTSIDE]},
            "hub": {"service": {"type": "NodePort", "nodePort": NODE_PORT}, "hosts": [self.cluster.address]},
            "messaging": {"persistence": claim},
            "ingest": {
                "persistence": claim,
                "trigger": 1,
                "compaction": {"enabled": True, "vacuumAfterHours": 168},
                "files": {"telemetry.json": CONTRACT},
                "config": {"schema": "/etc/fairlead/files/telemetry.json"},
            },
        }

    def _helm_install(self) -> None:
        self._helm("install", "--create-namespace")

    def _helm_upgrade(self, *more: str) -> None:
        self._helm("upgrade", *more)

    def _helm(self, verb: str, *more: str) -> None:
        values = self.outside.folder.parent / "values.json"
        values.parent.mkdir(parents=True, exist_ok=True)
        values.write_text(json.dumps(self._values()))
        self.cluster.helm(
            verb, NAMESPACE, str(CHARTS / "fairlead"), "--namespace", NAMESPACE, "--values", str(values), "--wait",
            "--timeout", f"{INSTALL_SECONDS}s", *more,
        )  # fmt: skip

    def _take_certificate(self, installing: Any) -> bool:
        if installing.done():
            installing.result()
        self.outside.take_certificate(self.cluster, NAMESPACE, f"{NAMESPACE}-edge-{OUTSIDE}")
        return True

    def _apply(self, *objects: dict[str, Any]) -> str:
        listed = {"apiVersion": "v1", "kind": "List", "items": objects}
        return self.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(listed))

    def _held_outside(self) -> str | None:
        return self._held_by(self.outside)

    def _held_by(self, edge: Outside) -> str | None:
        """None as well while its API does not answer yet."""
        try:
            return edge.config_map(SHOP, "menu").get("soup")
        except OSError:
            return None

    def _held_in_pod(self) -> str | None:
        soup: str | None = json.loads(self._in_edge_pod(READ_IN_POD)).get("soup")
        return soup

    def _in_edge_pod(self, script: str) -> str:
        pod = f"daemonset/fairlead-edge-{self.cluster.node}"
        return self.cluster.kubectl("exec", "-n", NAMESPACE, pod, "-c", "edge", "--", "python3", "-c", script)

    def _until_all_rows(self) -> None:
        seen: list[str] = []

        def all_there() -> bool:
            nonlocal seen
            seen = json.loads(self.installed.in_ingest_pod(READ_TABLE))
            return set(self.published) <= set(seen)

        self._until(f"all {len(self.published)} messages are rows", all_there)
        assert sorted(seen) == sorted(self.published), f"{len(seen)} rows for {len(self.published)} messages"
        self.say(f"{len(seen)} messages published, {len(seen)} rows, none twice")
        self.figures["rows"] = len(seen)
