"""The story: down, up, a cut, a return, and the count at the end. Each act asserts by conditions with deadlines.

raise the house ─► apply a harbour ─► replay weather ─► cut edge-2, kill hub and edge ─► let it return ─► count
"""

from __future__ import annotations

import functools
import json
import time

from e2e.demo import expected, picture, promises, replay
from e2e.demo.count import Ledger, Verdict
from e2e.demo.edge import Edge, Watch
from e2e.demo.follower import Follower
from e2e.demo.objects import configmap, node_manifest
from e2e.demo.promises import Wrong
from e2e.demo.publish import Publisher
from e2e.demo.screen import Screen
from e2e.demo.stack import NODES, ROOT, Stack
from e2e.demo.witness import KINDS, Witness, waiting_text

APP = ROOT / "e2e" / "demo" / "app"
CRDS = ROOT / "crds"

AWAY = "edge-2"
SHARES = (500, 800, 200)
"""Publications of a node before, while and after edge-2 is cut."""
UPDATES = 20

ACTS = ("raise_house", "go_down", "begin_up", "cut", "return_home", "finish_up")
"""The chapters on the screen."""

NOTICE_SECONDS = 180.0
REPLAY_SECONDS = 300.0
TABLE_SECONDS = 300.0


class Story:
    """One run on one stack."""

    def __init__(self, stack: Stack, screen: Screen) -> None:
        self._stack = stack
        self._api = stack.kubernetes
        self._screen = screen
        self._witness = Witness(stack, screen)
        self._ledger = Ledger()
        self._marks: list[picture.Mark] = []
        self._series = {node: replay.parts(said, SHARES) for node, said in replay.series().items()}
        self._publishers: list[Publisher] = []
        self._begin = time.time()
        self._deliveries = 0.0
        self._retries = 0.0

    # --- acts

    def raise_house(self) -> None:
        """A Kubernetes API, the definitions, three Nodes, and every program."""
        say = self._screen.say
        self._screen.chapter("A cluster, a hub, a messaging service, three edge nodes")
        self._stack.start_cluster()
        say(f"Kubernetes {self._api.get('/version')['gitVersion']} is up")
        self.refuse_foreign_nodes()
        found = self._api.kubectl("get", "-f", str(CRDS), "--ignore-not-found", "-o", "name")
        self._stack.brought_definitions = not found
        self._api.apply(CRDS)
        names = [line.removeprefix("customresourcedefinition.apiextensions.k8s.io/") for line in self._crds()]
        self._api.wait_established(*names)
        say(f"kubectl apply -f crds: {', '.join(name.split('.')[0] for name in names)}")
        self._api.apply([node_manifest(name) for name in NODES])
        self._stack.start_messaging()
        self._stack.start_hub()
        for node in NODES:
            self._stack.join_link(node)
            self._stack.start_edge(node)
        self._screen.wait(
            "the hub counts three nodes as connected", lambda: self._witness.connected() == set(NODES),
            seconds=NOTICE_SECONDS, describe=self._stack.tails,
        )  # fmt: skip
        say("messaging, hub and three agents run; kubectl get enode:")
        self._screen.quote(self._api.kubectl("get", "enode"))

    def go_down(self) -> None:
        """Apply the harbour; every node must hold its share, and every record must say so."""
        self._screen.chapter("Down: a harbour is applied, each node gets its share")
        before = time.monotonic()
        self._api.apply(APP)
        self._screen.say(f"kubectl apply -f {APP.relative_to(ROOT)}")
        self._witness.wait_true(NODES)
        seconds = time.monotonic() - before
        shares = self._witness.shares()
        for node in NODES:
            self._screen.say(f"{node} serves {len(shares[node])} objects, equal to the cluster's")
        self._witness.wait_records()
        total = sum(map(len, shares.values()))
        self._screen.say(f"{total} deliveries held {seconds:.1f} s after apply began; every record says Wanted = Held")
        self._screen.quote(self._api.kubectl("get", "osync", "-A"))
        self._screen.quote(self._api.kubectl("get", "cosync"))

    def begin_up(self) -> None:
        """The first part of the series, and a table made of it by a job that ends by itself."""
        self._screen.chapter("Up: weather is replayed, alarms at priority 0, telemetry at priority 1")
        self._follower = Follower(self._stack.follow(AWAY, expected.NAMESPACE, "tide-table").log)
        self.publish(0)
        self.wait_published()
        self._witness.wait_drained(NODES)
        self._screen.say(f"{len(self._ledger.accepted)} messages accepted on disk and durable in their topics")
        seconds = self._stack.ingest_once()
        promises.check_counts(self.judge(), "after the first ingest")
        self._screen.say(
            f"ingest (available-now) made {len(self._witness.rows())} rows of them in {seconds:.0f} s and ended"
        )
        self._stack.start_ingest()
        self._screen.say("ingest runs again, with a trigger of one second")

    def cut(self) -> None:
        """edge-2 loses its link; objects change, hub and edge-2 are killed; edge-2 goes on serving and accepting."""
        say = self._screen.say
        edge = self._stack.edges[AWAY]
        self._screen.chapter(f"The link of {AWAY} is cut")
        self._stack.cut_link(AWAY)
        self._cut_at = time.time()
        say(f"{AWAY}: connections broken, new ones refused")
        self._screen.wait(
            f"the hub notices that {AWAY} is away", lambda: AWAY not in self._witness.connected(),
            seconds=NOTICE_SECONDS, describe=functools.partial(self._stack.tail, "hub"),
        )  # fmt: skip
        say(f"kubectl get enode says that {AWAY} is away")
        replayed = self.publish(1)[AWAY]
        for revision in range(1, UPDATES // 2 + 1):
            self.update_tides(revision)
        self.note_hub_figures()
        self._stack.kill("hub")
        self.mark("hub killed", "", time.time())
        say(f"tide-table updated {UPDATES // 2} times; the hub is killed with -9")
        self._api.kubectl("-n", "harbour", "delete", "configmap", "ice-warning")
        self._api.kubectl("-n", "harbour", "delete", "configmap", "berth-plan")
        self._api.apply(configmap("berth-plan", {"berth-1": "MV Calypso", "berth-2": "closed"}))
        self._api.kubectl(
            "-n", "harbour", "delete", "pod", "tide-display-edge-2", "--force", "--grace-period=0", "--wait=true"
        )
        say("meanwhile: ice-warning deleted, berth-plan deleted and made anew, tide-display-edge-2 deleted by force")
        half = replayed.total // 2
        self._screen.wait(
            f"{AWAY} has accepted half of its part", lambda: replayed.accepted >= half or replayed.done,
            seconds=REPLAY_SECONDS, every=0.02, describe=functools.partial(self._stack.tail, AWAY),
        )  # fmt: skip
        self._stack.kill(AWAY)
        self.mark("agent killed", AWAY, time.time())
        self._stack.start_edge(AWAY)
        say(f"{AWAY}'s agent was killed with -9 in the middle of its replay, and runs again")
        back = time.monotonic()
        self._stack.start_hub()
        say(f"the hub is back and ready after {time.monotonic() - back:.1f} s")
        for revision in range(UPDATES // 2 + 1, UPDATES + 1):
            self.update_tides(revision)
        say(f"tide-table updated another {UPDATES - UPDATES // 2} times")
        others = [node for node in NODES if node != AWAY]
        self._witness.wait_true(others)
        say(f"{' and '.join(others)} are true to the cluster again; fairlead status, and why {AWAY} is not:")
        self._screen.quote(self._stack.fairlead("status"))
        self._screen.quote(
            self._stack.fairlead("explain", "ConfigMap/tide-table", "-n", expected.NAMESPACE, "--node", AWAY)
        )

        self.wait_published()
        say(
            f"{AWAY} took {replayed.total} messages while away ({replayed.retries} requests repeated); "
            f"waiting there: {waiting_text(edge)}"
        )
        self.check_offline_reads(edge)

    def return_home(self) -> None:
        """The link returns: one delivery for twenty updates, alarms before the backlog."""
        self._screen.chapter(f"The link of {AWAY} returns")
        edge = self._stack.edges[AWAY]
        watch = Watch(edge=edge, path=KINDS["ConfigMap"]).open()
        back = time.monotonic()
        returned = time.time()
        self.mark("cut", AWAY, self._cut_at, returned)
        self._stack.join_link(AWAY)
        self._witness.wait_true([AWAY])
        self._screen.say(f"{AWAY} is true to the cluster {time.monotonic() - back:.1f} s after its link returned")
        self._witness.wait_drained([AWAY])
        self._screen.say(f"{AWAY} is drained {time.monotonic() - back:.1f} s after its link returned")
        self._witness.wait_records()
        self.check_follower(returned)
        watch.close()
        seen = watch.of("tide-table")
        if len(seen) != 1:
            raise Wrong(f"{UPDATES} updates of tide-table must be one delivery to {AWAY}, its watch saw {len(seen)}")
        self._screen.say(
            f"the {UPDATES} updates of tide-table were one delivery; ice-warning is gone, berth-plan is new"
        )

    def finish_up(self) -> None:
        """The last part of the series, then every accepted message must be a row."""
        self._screen.chapter("The rest of the series, and the count")
        self.publish(2)
        self.wait_published()
        self._witness.wait_drained(NODES)
        wanted = len(self._ledger.accepted)
        self._screen.wait(
            "every accepted message is a row",
            lambda: len(self._witness.rows()) >= wanted,
            seconds=TABLE_SECONDS,
            every=0.5,
            progress=lambda: f"{len(self._witness.rows())} of {wanted}",
            describe=functools.partial(self._stack.tail, "ingest"),
        )
        code = self._stack.stop_politely("ingest")
        if code != 0:
            raise Wrong(f"ingest must drain and exit 0 on SIGTERM, it exited with {code}")
        self._screen.say(f"{wanted} messages accepted, {wanted} rows; ingest drained and ended")

    def conclude(self) -> str:
        """Check the result, draw the picture, and return the last line."""
        verdict = self.judge()
        promises.check_counts(verdict, "at the end")
        rows = self._witness.rows()
        returned = next(mark.end for mark in self._marks if mark.text == "cut")
        away = [
            each for each in self._ledger.accepted.values() if each.node == AWAY and self._cut_at < each.at < returned
        ]
        self._screen.say(promises.check_order(AWAY, away, rows, returned))
        self.note_hub_figures()
        records = self._witness.records()
        retries = sum((record.get("status") or {}).get("retries", 0) for record in records)
        path = self._stack.folder / "demo.png"
        picture.draw(path, list(self._ledger.accepted.values()), rows, self._marks, self._begin)
        self._screen.table(
            "Messages",
            ["node, priority", "accepted", "rows", "to topic p50", "to topic p99"],
            [
                [
                    f"{each.node}, {each.priority}",
                    str(each.accepted),
                    str(each.rows),
                    *promises.delays(rows, each.node, each.priority),
                ]
                for each in verdict.tallies
            ],
        )
        self._screen.table(
            "The run",
            ["", ""],
            [
                ["objects held (node by node)", str(len(records))],
                ["deliveries the hub made", f"{self._deliveries:.0f}"],
                ["retries now on record", str(retries)],
                ["messages accepted", str(len(self._ledger.accepted))],
                ["rows", str(len(rows))],
                ["lost", str(len(verdict.lost))],
                ["duplicated", str(len(verdict.duplicated))],
                ["seconds", f"{self._screen.seconds:.0f}"],
            ],
        )
        self._screen.say(f"picture: {path}")
        return (
            f"demo: ok objects={len(records)} messages={len(self._ledger.accepted)} rows={len(rows)} "
            f"lost={len(verdict.lost)} duplicated={len(verdict.duplicated)} seconds={self._screen.seconds:.0f}"
        )

    def tidy_cluster(self) -> None:
        """Delete what the demo created in the user's cluster."""
        self._api.kubectl("-n", "harbour", "delete", "pods", "--all", "--force", "--grace-period=0", check=False)
        self._api.kubectl("delete", "-f", str(APP), "--ignore-not-found", "--wait=false", check=False)
        self._api.kubectl("delete", "node", *NODES, "--ignore-not-found", check=False)
        self._api.kubectl("-n", "default", "delete", "lease", "fairlead-hub", "--ignore-not-found", check=False)
        if self._stack.brought_definitions:
            self._api.kubectl("delete", "-f", str(CRDS), "--ignore-not-found", check=False)

    def stop_publishing(self) -> None:
        """End the publishers of a run that failed."""
        for publisher in self._publishers:
            publisher.stop()

    # --- steps

    def refuse_foreign_nodes(self) -> None:
        """Never take over Nodes of the user's cluster."""
        for node in NODES:
            found = self._api.kubectl("get", "node", node, "--ignore-not-found", "-o", "json")
            if found and json.loads(found)["metadata"].get("labels", {}).get(expected.DEMO_LABEL) != "true":
                raise Wrong(f"the cluster has a Node {node} that is not the demo's; use another cluster")

    def _crds(self) -> list[str]:
        return self._api.kubectl("get", "-f", str(CRDS), "-o", "name").split()

    def judge(self) -> Verdict:
        """Ledger against table."""
        return self._ledger.judge(self._witness.rows())

    def publish(self, part: int) -> dict[str, Publisher]:
        """Start one publisher a node on its part of the series."""
        started = {
            node: Publisher(self._stack.edges[node], said[part], self._ledger).start()
            for node, said in self._series.items()
        }
        self._publishers += started.values()
        return started

    def wait_published(self) -> None:
        """Everything started so far is accepted."""
        self._screen.wait(
            "the edges accept what is replayed", lambda: all([each.done for each in self._publishers]),
            seconds=REPLAY_SECONDS,
            progress=lambda: f"{sum(each.accepted for each in self._publishers)} accepted",
            describe=self._stack.tails,
        )  # fmt: skip

    def check_offline_reads(self, edge: Edge) -> None:
        """A node without a link, whose agent was killed, still serves what it held."""
        held = self._witness.held(edge)
        tides, ice = held[("ConfigMap", "tide-table")], held.get(("ConfigMap", "ice-warning"))
        if tides["data"]["revision"] != "0" or ice is None:
            raise Wrong(f"{edge.name} must serve what it held before the cut; tide-table says {tides['data']}")
        age = tides["metadata"].get("annotations", {}).get("fairlead.dev/age-seconds", "?")
        self._screen.say(f"{edge.name} serves its {len(held)} objects as of before the cut (age {age} s)")

    def check_follower(self, returned: float) -> None:
        """The program that follows tide-table saw it before the cut and after, though its agent was killed between."""
        follower = self._follower
        self._screen.wait(
            f"the program on {AWAY} sees revision {UPDATES}", lambda: follower.revisions()[-1:] == [str(UPDATES)],
            seconds=NOTICE_SECONDS, describe=functools.partial(self._stack.tail, f"follow-{AWAY}"),
        )  # fmt: skip
        if follower.revisions() != ["0", str(UPDATES)]:
            raise Wrong(f"the program on {AWAY} must see revisions 0 and {UPDATES}, it saw {follower.revisions()}")
        seconds = follower.states()[-1]["at"] - returned
        self._screen.say(
            f"examples/watch/follow.py on {AWAY} saw revision {UPDATES} {seconds:.1f} s after the link returned, "
            "over the restart of its agent"
        )

    def update_tides(self, revision: int) -> None:
        """One more version of tide-table."""
        patch = json.dumps({"data": {"revision": str(revision), "high": f"{4 + revision % 8:02}:12, 16:41"}})
        self._api.kubectl("-n", "harbour", "patch", "configmap", "tide-table", "--type=merge", "-p", patch)

    def mark(self, text: str, node: str, start: float, end: float = 0.0) -> None:
        """Record something for the picture."""
        self._marks.append(picture.Mark(text=text, node=node, start=start, end=end or start))

    def note_hub_figures(self) -> None:
        """Add what this hub counted; its counters end with its process."""
        self._deliveries += self._stack.metric("hub", "fairlead_hub_acks_total")


def play(stack: Stack, screen: Screen) -> str:
    """Play every act; returns the last line. Raises Unmet or Wrong."""
    story = Story(stack, screen)
    try:
        for act in ACTS:
            getattr(story, act)()
        return story.conclude()
    except BaseException:
        story.stop_publishing()
        raise
