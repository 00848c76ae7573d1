"""Properties of what is rendered: settings the programs accept, Pods that may do nothing they need not."""

from __future__ import annotations

import ast
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from tests.support.kube.charts import CHARTS, COMBINATIONS, objects, pods

from fairlead_edge.settings import EdgeSettings as EdgeSettings
from fairlead_hub.settings import HubSettings as HubSettings
from fairlead_ingest.settings import IngestSettings as IngestSettings
from fairlead_messaging.server.settings import MessagingSettings
from fairlead_wire.io.settings import load
from fairlead_wire.validation.model import Model

MODELS: dict[str, type[msgspec.Struct] | type[Model]] = {
    "hub": HubSettings,
    "messaging": MessagingSettings,
    "ingest": IngestSettings,
    "edge": EdgeSettings,
}
pytestmark = [pytest.mark.process, pytest.mark.usefixtures("helm")]
every_combination = pytest.mark.parametrize("name", COMBINATIONS)


def settings(name: str, folder: Path) -> dict[str, Any]:
    """The settings of each room of a combination, read the way its program reads them."""
    read = {}
    for found in objects(name):
        for file, text in (found.get("data") or {}).items() if found["kind"] == "ConfigMap" else ():
            room = file.removesuffix(".toml")
            if room != file:
                path = folder / file
                path.write_text(text)
                environ = {"FAIRLEAD_EDGE_NODE": "edge-1"} if room == "edge" else {}
                read[room] = load(room, MODELS[room], path, environ)
    return read


@every_combination
def test_programs_accept_their_settings(name: str, tmp_path: Path) -> None:
    """What a ConfigMap holds is what a program takes: no unknown key, no bad value."""
    assert settings(name, tmp_path)


def test_free_settings_arrive_with_their_types(tmp_path: Path) -> None:
    """`config` values keep being whole numbers, fractions, lists and tables."""
    read = settings("everything", tmp_path)
    assert read["hub"].record.flush_seconds == 0.5
    assert read["hub"].delivery.backoff_retries == 3
    assert read["messaging"].default_ttl_seconds == 604800
    assert read["messaging"].system_topics == ["audit", "shard:4"]
    assert read["ingest"].spark.conf == {"spark.sql.shuffle.partitions": "4"}
    assert settings("pipelines", tmp_path)["ingest"].pipelines[0].table == "/data/alarms"


@every_combination
def test_containers_have_only_the_rights_they_need(name: str) -> None:
    """Not root, read-only root, no capability, no escalation, seccomp, bounded memory; one named exception."""
    for pod, spec in pods(name).items():
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, pod
        assert spec["enableServiceLinks"] is False, pod
        assert not any(spec.get(key) for key in ("hostNetwork", "hostPID", "hostIPC")), pod
        for container in [*spec["containers"], *spec.get("initContainers", [])]:
            context = {**spec["securityContext"], **container["securityContext"]}
            if container["name"] == "prepare":
                # It gives a folder of the node to the agent's user; without these two it could not.
                assert context["capabilities"]["add"] == ["CHOWN", "FOWNER"]
            else:
                assert context["runAsNonRoot"] is True, pod
                assert context["runAsUser"] == 10001, pod
                assert "add" not in context["capabilities"], pod
            assert context["readOnlyRootFilesystem"] is True, pod
            assert context["allowPrivilegeEscalation"] is False, pod
            assert context["capabilities"]["drop"] == ["ALL"], pod
            assert container["resources"]["limits"]["memory"], pod
            assert container["resources"]["requests"]["memory"], pod


@every_combination
def test_only_those_who_ask_the_api_have_a_token(name: str) -> None:
    """Hub and uninstaller, messaging that asks whose a token is, a driver that asks for executors; no other Pod."""
    tokens = {pod for pod, spec in pods(name).items() if spec["automountServiceAccountToken"]}
    asks = {"everything": {"messaging"}, "executors": {"ingest"}, "contract": {"ingest"}}.get(name, set())
    assert {pod.rpartition("-")[2] for pod in tokens} <= {"hub", "uninstall"} | asks


def test_hub_reads_only_what_the_values_name() -> None:
    """No wildcard, no secrets by default; it writes Fairlead's own kinds, events and Leases, and asks who may."""
    for name, (chart, _) in COMBINATIONS.items():
        if chart == "fairlead":
            rules = [rule for found in objects(name) if "Role" in found["kind"] for rule in found.get("rules", [])]
            assert not any("*" in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]] for rule in rules), name
    rules = [rule for found in objects("defaults") if "Role" in found["kind"] for rule in found.get("rules", [])]
    assert not any("secrets" in rule["resources"] for rule in rules)
    written = {
        resource
        for rule in rules
        if set(rule["verbs"]) - {"get", "list", "watch"}
        for resource in rule["resources"]
        if rule["apiGroups"] != ["fairlead.dev"]
    }
    reviews = {"tokenreviews", "subjectaccessreviews"}  # questions: nothing is kept of them
    assert written == {"events", "leases"} | reviews


@every_combination
def test_every_pod_has_a_policy_where_there_are_policies(name: str) -> None:
    """Also the ones that hooks start; none is left open because its component was forgotten."""
    policies = [each["spec"] for each in objects(name) if each["kind"] == "NetworkPolicy"]
    if not policies:
        return
    for found in objects(name):
        template = found if found["kind"] == "Pod" else found.get("spec", {}).get("template")
        if template:
            labels = template["metadata"]["labels"].items()
            chosen = [each for each in policies if each["podSelector"]["matchLabels"].items() <= labels]
            assert chosen, found["metadata"]["name"]
            assert all(each["policyTypes"] == ["Ingress", "Egress"] for each in chosen)


def test_policies_name_ports_that_containers_have() -> None:
    """A rule for a port nothing listens on would shut a room out without a word."""
    for name in ("locked-down", "everything"):
        ports = {
            (port["name"], port["containerPort"])
            for spec in pods(name).values()
            for container in spec["containers"]
            for port in container.get("ports", ())
        }
        for policy in (each for each in objects(name) if each["kind"] == "NetworkPolicy"):
            ours = {
                port for rule in policy["spec"].get("ingress", ()) for each in rule["ports"] for port in (each["port"],)
            }
            assert ours <= {each for each, _ in ports}, policy["metadata"]["name"]
            inside = {
                each["port"]
                for rule in policy["spec"]["egress"]
                if "podSelector" in str(rule.get("to")) and "component" in str(rule["to"])
                for each in rule["ports"]
            }
            assert inside <= {number for _, number in ports}, policy["metadata"]["name"]


def test_the_uninstaller_removes_every_definition() -> None:
    """All that the chart brings, and it may delete each: one that is forgotten stays with its objects."""
    files = (CHARTS.parent / "crds").glob("*.yaml")
    ours = {str(yaml.safe_load(path.read_text())["metadata"]["name"]) for path in files}
    [role] = [
        each
        for each in objects("everything")
        if each["kind"] == "ClusterRole" and each["metadata"]["name"].endswith("-uninstall")
    ]
    [rule] = role["rules"]
    assert set(rule["resourceNames"]) == ours
    script = ast.parse((CHARTS / "fairlead" / "files" / "uninstall.py").read_text())
    [plurals] = [
        ast.literal_eval(node.value)
        for node in script.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "PLURALS"
    ]
    assert {f"{plural}.fairlead.dev" for plural in plurals} == ours


UNIT = Path(__file__).parents[2] / "charts/fairlead-edge/systemd/fairlead-edge.service"


def test_unit_file_says_what_the_howto_says() -> None:
    """The agent's unit runs the documented command and does not try again when the settings are wrong."""
    unit = UNIT.read_text()
    assert "fairlead edge run --config /etc/fairlead/edge.toml" in unit
    assert "RestartPreventExitStatus=2" in unit


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not here")
def test_systemd_understands_the_unit_file() -> None:
    """No unknown key and no bad value; that the program is not installed here is all it may find."""
    done = subprocess.run(
        ["systemd-analyze", "verify", str(UNIT)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120
    )
    found = [line for line in done.stderr.splitlines() if UNIT.name in line and "is not executable" not in line]
    assert found == []


def test_sample_settings_of_a_node_outside_are_accepted(tmp_path: Path) -> None:
    """The edge.toml beside the unit file needs its two placeholders filled and nothing else."""
    text = (
        (UNIT.parent / "edge.toml").read_text().replace("NODE", "edge-2").replace("HUB:PORT", "hub.example.com:10000")
    )
    (tmp_path / "edge.toml").write_text(text)
    assert load("edge", EdgeSettings, tmp_path / "edge.toml", {}).node == "edge-2"
