"""The API server of a simulated world: what users and the hub write into it, its watches, and etcd's backups.

Versions rise with every write; a restore brings everything *and* the counters back.  ``watcher`` is the current hub:
it is told of every change, and reads everything when it lists.
"""

from __future__ import annotations

import copy
from random import Random
from typing import Any, Protocol

import msgspec
from tests.support.hubs.live import CONFIG_MAP

from fairlead_hub.cluster.content import LiveObject, build
from fairlead_hub.cluster.listed import EDGE_NODES
from fairlead_hub.status.memory_status_client import MemoryStatusClient
from fairlead_hub.status.status_cache import Name, Observed, Removal, StatusDocument, WriteOutcome
from fairlead_wire.objects.api_group import PAUSED

RULES = "syncrules"
TIERS = ("a", "b")
ZONES = ("x", "y")
MISTAKE = {"apiVersion": "v1"}
"""An entry of a rule without a kind, so that the rule is unreadable."""


class Watcher(Protocol):
    """Gets the changes."""

    def object_changed(self, before: LiveObject | None, after: LiveObject | None) -> None: ...

    def rule_changed(self, name: str) -> None: ...

    def node_changed(self, name: str) -> None: ...

    def document_changed(self, name: Name) -> None: ...


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """What a readable rule selects: nodes of a zone, objects of a tier; empty means all."""

    zone: str = ""
    tier: str = ""

    def spec(self) -> dict[str, Any]:
        entry: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap"}
        if self.tier:
            entry["labelSelector"] = {"matchLabels": {"tier": self.tier}}
        spec: dict[str, Any] = {"resources": [entry]}
        if self.zone:
            spec["nodeSelector"] = {"matchLabels": {"zone": self.zone}}
        return spec


class Cluster(MemoryStatusClient):
    """``objects`` by name, ``nodes`` (UID, labels), ``rules`` in their last readable form, documents as they stand."""

    def __init__(self, random: Random, *, objects: int, nodes: tuple[str, ...], rules: int = 2) -> None:
        super().__init__()
        self.random = random
        self.watcher: Watcher | None = None
        self.away = False
        """Status writes are not answered."""
        self.restores = 0
        self.objects: dict[str, LiveObject] = {}
        self.nodes: dict[str, tuple[str, dict[str, str]]] = {}
        self.rules: dict[str, Rule] = {}
        self.broken: set[str] = set()
        self.annotations: dict[str, dict[str, str]] = {}
        self._guards: dict[str, tuple[Observed, dict[str, Any] | None]] = {}
        """Parsed once from each document, because every step needs them."""
        self._owners: dict[str, tuple[Observed, set[str]]] = {}
        """The owners, parsed once as well."""
        self._names = [f"config-{n}" for n in range(objects)]
        self._rule_names = [f"rule-{n}" for n in range(rules)]
        self._bodies: dict[str, dict[str, Any]] = {}
        self._uids = 0
        self._object_version = 0
        for name in nodes:
            self.create_node(name)
        self.write_rule(self._rule_names[0], Rule())
        self._backup = self._snapshot()

    def desired(self, node: str) -> dict[str, LiveObject]:
        """What the node should hold, by path, computed from what users wrote and without the hub's code."""
        if node not in self.nodes:
            return {}
        zone = self.nodes[node][1]["zone"]
        tiers = {rule.tier for rule in self.rules.values() if rule.zone in ("", zone)}
        return {live.path: live for live in self.objects.values() if "" in tiers or live.labels["tier"] in tiers}

    # ---- objects ---------------------------------------------------------------------------------

    def change_object(self) -> None:
        """A user changes one object."""
        name = self.random.choice(self._names)
        if name not in self._bodies:
            self._create(name)
            return
        match self.random.choices(["update", "delete", "recreate", "touch", "relabel"], [6, 2, 1, 1, 1])[0]:
            case "update":
                self._stamp(name, data={"n": str(self.random.randrange(5))})
            case "delete":
                del self._bodies[name]
                self._changed(name, None)
            case "recreate":
                self._create(name)
            case "touch":
                self._bodies[name]["metadata"]["managedFields"] = [{"n": self.random.randrange(1 << 30)}]
                self._stamp(name)
            case "relabel":
                self._bodies[name]["metadata"]["labels"] = {"tier": self.random.choice(TIERS)}
                self._stamp(name)

    def pause_object(self, name: str, why: str | None) -> None:
        """A person annotates the object with this name, if it exists; None removes the annotation."""
        body = self._bodies.get(name)
        said = body["metadata"].setdefault("annotations", {}) if body is not None else {}
        if body is None or said.get(PAUSED) == why:
            return
        said.pop(PAUSED, None)
        if why is not None:
            said[PAUSED] = why
        self._stamp(name)

    def paused_objects(self) -> set[str]:
        """UIDs of the objects that users paused."""
        metadata = [body["metadata"] for body in self._bodies.values()]
        return {each["uid"] for each in metadata if PAUSED in each.get("annotations", ())}

    @property
    def object_names(self) -> list[str]:
        return self._names

    def _create(self, name: str) -> None:
        self._uids += 1
        labels = {"tier": self.random.choice(TIERS)}
        self._bodies[name] = {
            "metadata": {"namespace": "sim", "name": name, "uid": f"uid-{self._uids}", "labels": labels}
        }
        self._stamp(name, data={"n": str(self.random.randrange(5))})

    def _stamp(self, name: str, **fields: Any) -> None:
        self._object_version += 1
        body = self._bodies[name]
        body.update(fields)
        body["metadata"]["resourceVersion"] = str(self._object_version)
        self._changed(name, build(msgspec.json.encode(body), CONFIG_MAP))

    def _changed(self, name: str, after: LiveObject | None) -> None:
        before = self.objects.pop(name, None)
        if after is not None:
            self.objects[name] = after
        if self.watcher is not None:
            self.watcher.object_changed(before, after)

    # ---- rules -----------------------------------------------------------------------------------

    def change_rule(self) -> None:
        name = self.random.choice(self._rule_names)
        what = self.random.choices(["write", "break", "mend", "delete"], [3, 3, 2, 2])[0]
        if name not in self.rules or what == "write":
            zone, tier = self.random.choice(["", *ZONES]), self.random.choice(["", *TIERS])
            self.write_rule(name, Rule(zone=zone, tier=tier))
        elif what == "break":
            self._break_rule(name)
        elif what == "mend":
            self.write_rule(name, self.rules[name])
        else:
            del self.rules[name]
            self.broken.discard(name)
            self._replace((RULES, "", name), None)
            self._rule_changed(name)

    def mend_rules(self) -> None:
        for name in sorted(self.broken):
            self.write_rule(name, self.rules[name])

    def write_rule(self, name: str, rule: Rule) -> None:
        self.rules[name] = rule
        self.broken.discard(name)
        self._edit_rule(name, rule.spec())

    def _break_rule(self, name: str) -> None:
        """A person adds an invalid entry beside the valid ones."""
        self.broken.add(name)
        spec = self.rules[name].spec()
        spec["resources"].append(MISTAKE)
        self._edit_rule(name, spec)

    def _edit_rule(self, name: str, spec: dict[str, Any]) -> None:
        there = self.documents.get((RULES, "", name))
        if there is None:
            self._uids += 1
            there = Observed(version="", generation=0, status={}, head={}, uid=f"uid-{self._uids}")
        document = Observed(
            version="", generation=there.generation + 1, status=there.status, head={"spec": spec}, uid=there.uid
        )
        self._replace((RULES, "", name), document)
        self._rule_changed(name)

    def rule_body(self, name: str) -> dict[str, Any]:
        """As the API server shows it."""
        there = self.documents[RULES, "", name]
        metadata = {"name": name, "uid": there.uid, "generation": there.generation, "resourceVersion": there.version}
        return {"metadata": metadata, "spec": there.head["spec"], "status": there.status}

    def _rule_changed(self, name: str) -> None:
        if self.watcher is not None:
            self.watcher.rule_changed(name)

    # ---- nodes -----------------------------------------------------------------------------------

    def create_node(self, name: str) -> None:
        self._uids += 1
        self.nodes[name] = (f"uid-{self._uids}", {"zone": self.random.choice(ZONES)})
        self._node_changed(name)

    def relabel_node(self, name: str) -> None:
        if name in self.nodes:
            self.nodes[name] = (self.nodes[name][0], {"zone": self.random.choice(ZONES)})
            self._node_changed(name)

    def delete_node(self, name: str) -> None:
        self.nodes.pop(name, None)
        self._node_changed(name)

    def _node_changed(self, name: str) -> None:
        if self.watcher is not None:
            self.watcher.node_changed(name)

    # ---- documents of the hub --------------------------------------------------------------------

    async def put(
        self, document: StatusDocument, observed: Observed | None, fence: int
    ) -> tuple[WriteOutcome, Observed | None]:
        before = self.documents.get(document.name)
        answer, there = await super().put(document, observed, fence)
        if answer is WriteOutcome.WRITTEN and there is not None:
            if before is not None:
                there = Observed(
                    version=there.version, generation=before.generation, status=there.status, head=before.head,
                    uid=before.uid,
                )  # fmt: skip
                self.documents[document.name] = there
            self._tell(document.name)
        return answer, there

    async def remove(self, removal: Removal, observed: Observed | None, fence: int) -> WriteOutcome:
        answer = await super().remove(removal, observed, fence)
        if answer is WriteOutcome.WRITTEN:
            self._forget_annotations(removal.name)
            self._version += 1
            self._tell(removal.name)
        return answer

    @property
    def version(self) -> str:
        """The version of the newest change of a document."""
        return str(self._version)

    def annotate(self, node: str, key: str, value: str | None) -> None:
        """A person annotates its EdgeNode, if there is one."""
        there = self.documents.get((EDGE_NODES, "", node))
        said = self.annotations.setdefault(node, {})
        if there is None or said.get(key) == value:
            return
        said.pop(key, None)
        if value is not None:
            said[key] = value
        self._replace((EDGE_NODES, "", node), there)
        self._tell((EDGE_NODES, "", node))

    def deletion_guard(self, node: str) -> dict[str, Any] | None:
        """The deletion guard in its EdgeNode."""
        there = self.documents.get((EDGE_NODES, "", node))
        if there is None:
            return None
        read = self._guards.get(node)
        if read is None or read[0] is not there:
            read = self._guards[node] = (there, there.status.get("deletionGuard"))
        return read[1]

    def meddle(self) -> None:
        """A person deletes a document of the hub, or writes nonsense into its status."""
        names = sorted(name for name in self.documents if name[0] != RULES)
        if not names:
            return
        name = self.random.choice(names)
        there = self.documents[name]
        if name[0] == EDGE_NODES or self.random.random() < 0.5:
            self._forget_annotations(name)
            self._replace(name, None)
        else:
            status = {**there.status, "objectResourceVersion": "", "objectDigest": "", "state": "Synced"}
            self._replace(name, Observed(version="", generation=1, status=status, head=there.head))
        self._tell(name)

    def collect_garbage(self) -> None:
        """EdgeNodes are owned by their Nodes, and deleted after them."""
        uids = {uid for uid, _ in self.nodes.values()}
        for name in [name for name in self.documents if name[0] == EDGE_NODES]:
            there, read = self.documents[name], self._owners.get(name[2])
            if read is None or read[0] is not there:
                owners = {owner["uid"] for owner in there.head["metadata"]["ownerReferences"]}
                read = self._owners[name[2]] = (there, owners)
            if not uids & read[1]:
                self._forget_annotations(name)
                self._replace(name, None)
                self._tell(name)

    def _forget_annotations(self, name: Name) -> None:
        if name[0] == EDGE_NODES:
            self.annotations.pop(name[2], None)

    def _replace(self, name: Name, document: Observed | None) -> None:
        """Written by others than the hub, at the next version."""
        self._version += 1
        if document is None:
            self.documents.pop(name, None)
            return
        self.documents[name] = Observed(
            version=self.version, generation=document.generation, status=document.status, head=document.head,
            uid=document.uid,
        )  # fmt: skip

    def _tell(self, name: Name) -> None:
        if self.watcher is not None:
            self.watcher.document_changed(name)

    # ---- backups ---------------------------------------------------------------------------------

    def _snapshot(self) -> tuple[Any, ...]:
        fields = (self.objects, self.nodes, self.rules, self.documents)
        bodies, annotations = copy.deepcopy(self._bodies), copy.deepcopy(self.annotations)
        return (self._object_version, self._version, bodies, annotations, *(dict(field) for field in fields))

    def back_up(self) -> None:
        """Not while a rule is unreadable, because only the hub knows which form of it is in force."""
        if not self.broken:
            self._backup = self._snapshot()

    def restore(self) -> None:
        """The API server comes back from the last backup: everything and its versions go back."""
        self.restores += 1
        self._object_version, self._version, bodies, annotations, objects, nodes, rules, documents = self._backup
        self._bodies, self.annotations = copy.deepcopy(bodies), copy.deepcopy(annotations)
        self.objects, self.nodes, self.rules, self.documents = dict(objects), dict(nodes), dict(rules), dict(documents)
        self.broken = set()
