"""`ingest.compaction`: a CronJob that joins the files of the job's tables, and the volume that it needs for that."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from tests.support import pages
from tests.support.kube.charts import CHARTS, NAMESPACE, RELEASE, helm_with, objects, pods

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("helm")]
ON_VOLUME, IN_STORE = "compaction", "contract"
NAME = "fl-fairlead-compaction"
STORE = {"table": "s3://tables/rows"}


def cron_job(combination: str) -> dict[str, Any]:
    (found,) = [each for each in objects(combination) if each["kind"] == "CronJob"]
    return found


def with_values(ingest: Mapping[str, Any]) -> list[dict[str, Any]]:
    values = {
        "certificates": {"source": "existing"},
        "ingest": {**ingest, "compaction": {"enabled": True, **ingest.get("compaction", {})}},
    }
    return [
        each
        for each in yaml.safe_load_all(
            helm_with(values, "template", RELEASE, str(CHARTS / "fairlead"), "--namespace", NAMESPACE)
        )
        if each
    ]


def pod_of(ingest: Mapping[str, Any]) -> dict[str, Any]:
    (found,) = [each for each in with_values(ingest) if each["kind"] == "CronJob"]
    spec: dict[str, Any] = found["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    return spec


def mounts_of(container: Mapping[str, Any]) -> dict[str, str]:
    return {each["name"]: each["mountPath"] for each in container["volumeMounts"]}


def test_off_unless_it_is_asked_for() -> None:
    """No CronJob by default."""
    assert not [each for each in objects("defaults") if each["kind"] == "CronJob"]


def test_it_runs_the_command_by_the_jobs_own_settings_one_at_a_time() -> None:
    """The words that a person would type, and the file that the job has."""
    found = cron_job(ON_VOLUME)
    assert found["spec"]["concurrencyPolicy"] == "Forbid"
    assert (found["spec"]["schedule"], found["spec"]["timeZone"]) == ("0 3 * * 0", "Europe/Berlin")
    spec = pods(ON_VOLUME)[NAME]
    (compact,), (vacuum,) = spec["initContainers"], spec["containers"]
    assert compact["args"] == [
        "ingest", "compact", "--target-mib", "128", "--config", "/etc/fairlead/ingest.toml", "--z-order", "node",
    ]  # fmt: skip
    assert vacuum["args"] == ["ingest", "vacuum", "--retention-hours", "168", "--config", "/etc/fairlead/ingest.toml"]
    assert "initContainers" not in pod_of(STORE) and pod_of(STORE)["containers"][0]["name"] == "compact"


def test_the_longest_name_is_one_that_kubernetes_takes() -> None:
    """A CronJob's may have 52 characters: its Jobs get eleven more."""
    values = {
        "fullnameOverride": "f" * 60,
        "certificates": {"source": "existing"},
        "ingest": {"compaction": {"enabled": True}},
    }
    found = yaml.safe_load(
        helm_with(values, "template", RELEASE, str(CHARTS / "fairlead"), "-s", "templates/ingest-compaction.yaml")
    )
    assert len(found["metadata"]["name"]) == len("f" * 40 + "-compaction") <= 52


def test_its_pod_is_as_the_jobs_but_has_no_key_of_messaging() -> None:
    """The same security, account and placement, the same way to the store; it asks nothing of ours."""
    spec, job = pods(IN_STORE)[NAME], pods(IN_STORE)["fl-fairlead-ingest"]
    (own,), (driver,) = spec["containers"], job["containers"]
    assert spec["securityContext"] == job["securityContext"]
    assert own["securityContext"] == driver["securityContext"]
    assert (spec["serviceAccountName"], spec["tolerations"]) == (job["serviceAccountName"], job["tolerations"])
    assert spec["automountServiceAccountToken"] is False
    assert own["envFrom"] == driver["envFrom"] == [{"secretRef": {"name": "object-store"}}]
    assert {"name": "SSL_CERT_FILE", "value": "/etc/fairlead/store-authority/ca.crt"} in own["env"]
    assert own["image"] == driver["image"]
    shared = {"config", "store-authority", "files", "catalog", "tmp"}
    assert set(mounts_of(own)) == shared and mounts_of(own).items() <= mounts_of(driver).items()


def test_tables_in_a_store_need_no_volume_and_no_node() -> None:
    """So it runs wherever there is room."""
    spec = pod_of(STORE)
    assert "data" not in mounts_of(spec["containers"][0]) and "affinity" not in spec


def test_a_volume_of_one_node_is_mounted_on_that_node() -> None:
    """ReadWriteOnce: beside the job; what users say of affinity stays."""
    spec = pods(ON_VOLUME)[NAME]
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "data-fl-fairlead-ingest-0"}}
    assert claim in spec["volumes"] and mounts_of(spec["containers"][0])["data"] == "/data"
    (beside,) = spec["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert beside["topologyKey"] == "kubernetes.io/hostname"
    assert beside["labelSelector"]["matchLabels"]["app.kubernetes.io/component"] == "ingest"
    assert "nodeAffinity" in spec["affinity"]


def test_a_volume_of_many_nodes_is_mounted_anywhere() -> None:
    """ReadWriteMany binds it to no node."""
    spec = pod_of({"persistence": {"type": "claim", "size": "1Gi", "accessModes": ["ReadWriteMany"]}})
    assert mounts_of(spec["containers"][0])["data"] == "/data" and "affinity" not in spec


def test_a_catalog_on_the_volume_needs_it_as_well() -> None:
    """The tables of SQLite's catalog are in a store, the catalog is not."""
    catalog = {"type": "sql", "uri": "sqlite:////data/catalog.db"}
    spec = pod_of({**STORE, "config": {"table_format": "iceberg", "catalog": catalog}})
    assert mounts_of(spec["containers"][0])["data"] == "/data" and "podAffinity" in spec["affinity"]


REFUSED: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "a volume for one Pod": (
        {"persistence": {"type": "claim", "size": "1Gi", "accessModes": ["ReadWriteOncePod"]}},
        r"ReadWriteOncePod\); use ReadWriteOnce .* or run the compaction in the"
        " job's Pod: kubectl exec -n fairlead fl-fairlead-i",
    ),
    "a volume that is gone with its Pod": (
        {"persistence": {"type": "emptyDir", "size": "1Gi"}},
        "is in an emptyDir of the job's Pod, which no other Pod can mount; use .*"
        " or run the compaction in that Pod: kubectl exec",
    ),
    "no time": ({"compaction": {"schedule": "at night"}}, "/ingest/compaction/schedule"),
    "no minute": ({"compaction": {"schedule": "61 * * * *"}}, "/ingest/compaction/schedule"),
    "no step": ({"compaction": {"schedule": "*/0 2 * * *"}}, "/ingest/compaction/schedule"),
    "no month": ({"compaction": {"schedule": "30 2 * 13 *"}}, "/ingest/compaction/schedule"),
    "no day of the week": ({"compaction": {"schedule": "30 2 * * 7"}}, "/ingest/compaction/schedule"),
    "a size that the command refuses": ({"compaction": {"targetMib": 0}}, "/ingest/compaction/targetMib"),
}


@pytest.mark.parametrize(
    "schedule", ["*/5 0-6 1,15 JAN-MAR mon-FRI", "0 0 ? * SUN", "@daily", "00 09 31 12 6", "5/15 * * * *"]
)
def test_a_time_of_a_cron_job_is_taken_as_it_is(schedule: str) -> None:
    """In all forms that Kubernetes takes."""
    pattern = json.loads((CHARTS / "fairlead" / "values.schema.json").read_text())["properties"]["ingest"][
        "properties"
    ]["compaction"]["properties"]["schedule"]["pattern"]
    assert re.search(pattern, schedule)


@pytest.mark.parametrize("case", REFUSED)
def test_what_it_could_not_do_is_refused_with_a_remedy(case: str) -> None:
    """By the chart, and not by a Pod at night."""
    ingest, reason = REFUSED[case]
    with pytest.raises(AssertionError, match=reason):
        with_values(ingest)


def test_policies_let_it_at_the_store_and_nothing_of_ours() -> None:
    """DNS, and what is let out for ingest."""
    named = [each for each in objects(IN_STORE) if each["metadata"]["name"] == NAME]
    (policy,) = [each for each in named if each["kind"] == "NetworkPolicy"]
    assert policy["spec"]["ingress"] == [] and policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert policy["spec"]["egress"][-1] == {"to": [{"ipBlock": {"cidr": "203.0.113.9/32"}}]}
    assert not [rule for rule in policy["spec"]["egress"] if 11015 in [each["port"] for each in rule.get("ports", ())]]


def test_the_values_of_the_page_are_taken() -> None:
    """As they stand in the how-to."""
    page = CHARTS.parent / "docs/howto/compact-tables.md"
    (block,) = [each for each in pages.blocks(page, page.read_text()) if each.text.startswith("ingest:")]
    values: dict[str, Any] = yaml.safe_load(block.text)
    assert [each["name"] for each in pod_of(values["ingest"])["initContainers"]] == ["compact"]
