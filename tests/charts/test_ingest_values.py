"""What ingest may be told by values: each pair of documented choices, as chart, program and API server see it.

choices ──helm template──► refused with a sentence, or ConfigMap ──► the program's settings
                                                       objects ──► API server, dry run
"""

from __future__ import annotations

import itertools
import json
import tomllib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from typing import Any

import pytest
import yaml
from tests.support import pages
from tests.support.kube.charts import CHARTS, NAMESPACE, RELEASE, helm_with
from tests.support.kube.cluster import Cluster

from fairlead_ingest.settings import IngestSettings

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("helm")]

REST = {"type": "rest", "uri": "https://catalog.example.com"}
SQLITE = {"type": "sql", "uri": "sqlite:////data/catalog.db"}
CHOICES: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "checkpoint": {"store": {"checkpoint": "s3://tables/checkpoint"}},
    "format": {
        "iceberg in a REST catalog": {"config": {"table_format": "iceberg", "catalog": REST}},
        "iceberg in SQLite": {"config": {"table_format": "iceberg", "catalog": SQLITE}},
        "iceberg in no catalog": {"config": {"table_format": "iceberg"}},
    },
    "contract": {
        "a file": {"files": {"rows.json": "{}"}, "config": {"schema": "/etc/fairlead/files/rows.json"}},
    },
    "latest": {"each node": {"config": {"latest": {"key": ["node"]}}}},
    "rows": {"raw": {"config": {"format": "raw"}}},
    "repeats": {"a minute": {"config": {"dedupe_seconds": 60}}},
    "volume": {"none that stays": {"persistence": {"type": "emptyDir", "size": "1Gi"}}},
    "pipelines": {
        "two": {"config": {"pipelines": [{"topics": ["a/b"], "table": "s3://tables/b", "checkpoint": "/data/b"}]}}
    },
    "compaction": {"each night": {"compaction": {"enabled": True}}},
}
"""What differs from a table and a checkpoint on the volume, or from executors and a table in a store."""
BASES: Mapping[str, Mapping[str, Any]] = {
    "local, on the volume": {},
    "local, in a store": {"table": "s3://tables/rows"},
    "executors": {"table": "s3://tables/rows", "spark": {"mode": "kubernetes"}},
}
AT_ONCE = {"local, on the volume": 2, "local, in a store": 1, "executors": 2}
OF_PODS = (
    "which no other Pod can mount",
    "with ingest.persistence.type=emptyDir the catalog is deleted with the Pod",
    "dedupe_seconds keeps its state in the checkpoint",
)
"""What the chart alone can know: the program sees no Pod."""


def merged(*values: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in values:
        for key, value in each.items():
            inner = isinstance(value, Mapping) and isinstance(found.get(key), Mapping)
            found[key] = merged(found[key], value) if inner else deepcopy(value)
    return found


def of_choices(at_once: Mapping[str, int] = AT_ONCE) -> Iterator[dict[str, Any]]:
    """Each base, alone and with up to so many choices."""
    for name, base in BASES.items():
        for count in range(at_once[name] + 1):
            for chosen in itertools.combinations(CHOICES, count):
                for each in itertools.product(*(CHOICES[name].values() for name in chosen)):
                    yield merged(base, *each)


def as_program(ingest: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that a person would write for the same without a chart."""
    config = merged({"topics": ["default/telemetry"], "table": "/data/rows", "checkpoint": "/data/checkpoint"})
    config |= {key: ingest[key] for key in ("table", "checkpoint") if key in ingest}
    return {**config, "messaging_url": "http://messaging", "security": "insecure", **ingest.get("config", {})}


def accepts(settings: Mapping[str, Any]) -> bool:
    try:
        IngestSettings.model_validate(settings)
    except ValueError:
        return False
    return True


def render(ingest: Mapping[str, Any]) -> tuple[list[dict[str, Any]], str]:
    """The objects of ingest, or none and the chart's sentence."""
    values = {"certificates": {"source": "existing"}, "ingest": ingest}
    try:
        text = helm_with(values, "template", RELEASE, str(CHARTS / "fairlead"), "--namespace", NAMESPACE)
    except AssertionError as error:
        return [], str(error)
    own = [each for each in text.split("\n---\n") if "# Source: fairlead/templates/ingest" in each]
    return [yaml.load(each, Loader=yaml.CSafeLoader) for each in own], ""


def settings_in(found: list[dict[str, Any]]) -> dict[str, Any]:
    (text,) = [each["data"]["ingest.toml"] for each in found if "ingest.toml" in each.get("data", ())]
    return tomllib.loads(text)


@pytest.mark.verify
def test_chart_program_and_api_server_agree_on_each_pair_of_choices(cluster: Cluster, namespace: str) -> None:
    """What the chart takes, the program and the API server take; what the program would refuse, the chart does."""
    wrong, taken = [], {}
    chosen = list(of_choices())
    with ThreadPoolExecutor(4) as pool:
        rendered = list(pool.map(render, chosen))
    for ingest, (found, said) in zip(chosen, rendered, strict=True):
        fits = accepts(as_program(ingest))
        if found:
            taken.update({json.dumps(each): each for each in found})
            if not fits or not accepts(settings_in(found)):
                wrong.append(f"taken by the chart and not by the program: {ingest}")
        elif "execution error" not in said or (fits and not any(each in said for each in OF_PODS)):
            wrong.append(f"refused: {ingest}: {said}")
    assert not wrong, "\n".join(wrong[:5])
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(taken.values())})
    said = cluster.kubectl(
        "apply", "--server-side", "--dry-run=server", "--validate=strict", "-n", namespace, "-f", "-", stdin=listed
    )
    assert said.count("serverside-applied") == len(taken) > 50


REFUSED: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "no topics": ({"topics": []}, "ingest.topics: required, but empty"),
    "nothing to do": ({"topics": [], "table": "", "checkpoint": ""}, "ingest.topics: required, but empty"),
    "a topic twice": ({"topics": ["a/b", "a/b"]}, "ingest.topics: a topic is listed twice"),
    "a topic of a pipeline without namespace": (
        {"config": {"pipelines": [{"topics": ["b"], "table": "/data/b", "checkpoint": "/data/c"}]}},
        r"pipelines\[0\].topics: must be namespace/name, is b",
    ),
    "a table beside the volume": (
        {"table": "/tables/rows"},
        "ingest.table: /tables/rows is not on a volume of the Pod",
    ),
    "a table in the folder of the process": ({"table": "rows"}, "ingest.table: rows is not on a volume of the Pod"),
    "a table outside by dots": ({"table": "/data/../rows"}, "is not on a volume of the Pod"),
    "the whole volume": ({"table": "/data"}, "is not on a volume of the Pod"),
    "another store": ({"table": "gs://tables/rows"}, "only s3://bucket/path is supported"),
    "Hadoop's scheme": ({"table": "s3a://tables/rows"}, "only s3://bucket/path is supported"),
    "a bucket alone": ({"table": "s3://tables"}, "must be s3://bucket/path"),
    "no checkpoint": ({"checkpoint": ""}, "ingest.checkpoint: required, but empty"),
    "a checkpoint in its table": ({"table": "/data/a", "checkpoint": "/data/a/b"}, "use a path outside it"),
    "a checkpoint as its table": ({"table": "/data/a", "checkpoint": "/data/a"}, "is already used by ingest.table"),
    "two pipelines in one table": (
        {"config": {"pipelines": [{"topics": ["a/b"], "table": "/data/telemetry", "checkpoint": "/data/c"}]}},
        r"pipelines\[0\].table: /data/telemetry is already used by ingest.table",
    ),
    "a table in place of dead letters": (
        {"config": {"pipelines": [{"topics": ["a/b"], "table": "/data/telemetry_gaps", "checkpoint": "/data/c"}]}},
        "/data/telemetry_gaps is already used by ingest.table",
    ),
    "a job that ends": ({"config": {"trigger": "available-now"}}, "its Pod would restart again and again"),
    "a store in plain": (
        {"config": {"storage": {"endpoint_url": "http://store:9000"}}},
        "must be https://host:port .http:// is for loopback",
    ),
    "a contract that is nowhere": (
        {"config": {"schema": "/etc/rows.json"}},
        "ingest.config.schema: /etc/rows.json is not on a volume of the Pod; put a text file into ingest.files",
    ),
    "a contract that was forgotten": (
        {"config": {"schema": "/etc/fairlead/files/rows.json"}},
        r"rows.json is not in ingest.files; add it with --set-file 'ingest.files.rows\\.json=FILE'",
    ),
    "a transform that is nowhere": (
        {"config": {"transforms": ["/opt/ours.py:clean"]}},
        "ingest.config.transforms: /opt/ours.py is not on a volume",
    ),
    "a password that is nowhere": (
        {"config": {"table_format": "iceberg", "catalog": {**REST, "credential_file": "/etc/catalog/credential"}}},
        "ingest.config.catalog.credential_file: /etc/catalog/credential is not on a volume",
    ),
    "a catalog beside the volume": (
        {"config": {"table_format": "iceberg", "catalog": {"type": "sql", "uri": "sqlite:////var/catalog.db"}}},
        "is not on a volume of the Pod, whose root file system is read-only; use sqlite:////data/catalog.db",
    ),
    "a store that only seems to be here": (
        {"config": {"storage": {"endpoint_url": "http://localhost.example.com"}}},
        "must be https://host:port",
    ),
    "a name in the store's address": (
        {"config": {"storage": {"endpoint_url": "https://user:word@store"}}},
        "must be https://host:port .* is https://…@store",
    ),
    "a password in the query of an address": (
        {"config": {"table_format": "iceberg", "catalog": {"uri": "postgresql+psycopg://db/catalog?password=word"}}},
        "ingest.config.catalog.uri: must not contain the password",
    ),
    "a password where a ConfigMap shows it": (
        {"config": {"table_format": "iceberg", "catalog": {"uri": "postgresql+psycopg://us:word@db/catalog"}}},
        "ingest.config.catalog.uri: must not contain the password",
    ),
    "a REST catalog in plain": (
        {"config": {"table_format": "iceberg", "catalog": {**REST, "uri": "http://catalog"}}},
        "ingest.config.catalog.uri: must be https://host:port",
    ),
    "a REST catalog called a database": (
        {"config": {"table_format": "iceberg", "catalog": {"uri": "https://catalog"}}},
        "ingest.config.catalog.type: https://catalog is a catalog of type rest",
    ),
    "a database's password for REST": (
        {"config": {"table_format": "iceberg", "catalog": {**REST, "password_file": "/data/word"}}},
        "ingest.config.catalog.password_file: does not apply to a catalog of type",
    ),
    "a latest table of nothing": ({"config": {"latest": {"seconds": 5}}}, "ingest.config.latest.key: required"),
    "messaging without a scheme": ({"config": {"messaging_url": "messaging:1"}}, "must begin with https://"),
    "health at another port": ({"config": {"health_listen": "0.0.0.0:8080"}}, "probes and metrics use port"),
    "no TLS towards the chart's messaging": ({"config": {"security": "insecure"}}, "must begin with http://"),
    "executors and a master": (
        {**BASES["executors"], "config": {"spark": {"master": "spark://spark:7077"}}},
        "must not be set with ingest.spark.mode=kubernetes, which sets its own master",
    ),
    "executors and a Connect server": (
        {**BASES["executors"], "config": {"spark": {"remote": "sc://spark:15002"}}},
        "ingest.config.spark.remote: must not be set with ingest.spark.mode=kubernetes",
    ),
    "a Connect server and a checkpoint in a store": (
        {"checkpoint": "s3://a-bucket/c", "config": {"spark": {"remote": "sc://spark:15002"}}},
        "must be a folder that the Connect server",
    ),
    "a file's name with a folder": ({"files": {"a/b.json": "{}"}}, "/ingest/files"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_no_pod_could_do_is_refused_by_the_chart(case: str) -> None:
    """With the key and what to give instead."""
    ingest, reason = REFUSED[case]
    with pytest.raises(AssertionError, match=reason):
        helm_with({"ingest": ingest}, "template", RELEASE, str(CHARTS / "fairlead"))


def test_a_pipelines_own_empty_value_is_its_own() -> None:
    """`latest: {key: []}` and `dedupe_seconds: 0` take back what the job says, in the chart's judgement, too."""
    pipeline = {
        "topics": ["a/b"], "table": "s3://tables/b", "checkpoint": "/data/b", "table_format": "iceberg",
        "latest": {"key": []}, "dedupe_seconds": 0,
    }  # fmt: skip
    config = {"latest": {"key": ["node"]}, "catalog": REST, "pipelines": [pipeline]}
    found, said = render({"config": config})
    assert found and accepts(settings_in(found)), said


def test_volumes_of_users_hold_tables_and_files() -> None:
    """What is mounted by `extraVolumes` is a place as good as /data."""
    found, said = render(
        {
            "table": "/tables/rows",
            "extraVolumes": [{"name": "tables", "nfs": {"server": "192.0.2.1", "path": "/"}}],
            "extraVolumeMounts": [{"name": "tables", "mountPath": "/tables/"}],
            "config": {"schema": "/tables/contracts/rows.json"},
        }
    )
    assert found, said
    (pod,) = [each["spec"]["template"]["spec"] for each in found if each["kind"] == "StatefulSet"]
    assert {"name": "tables", "mountPath": "/tables/"} in pod["containers"][0]["volumeMounts"]


def test_the_values_of_the_page_about_an_identity_are_taken() -> None:
    """As they stand in the how-to: by the account alone, and with a token of one's own choice, which every Pod has."""
    page = CHARTS.parent / "docs/howto/tables-on-object-stores.md"
    blocks = [yaml.safe_load(each.text) for each in pages.blocks(page, page.read_text()) if "ingest:" in each.text]
    by_account, by_token = (each["ingest"] for each in blocks)
    found, said = render(by_account)
    assert found, said
    annotated = {
        each["metadata"]["name"]
        for each in found
        if each["kind"] == "ServiceAccount" and "eks.amazonaws.com/role-arn" in each["metadata"].get("annotations", {})
    }
    assert annotated == {"fl-fairlead-ingest"}
    found, said = render(by_token)
    assert found and accepts(settings_in(found)), said
    (pod,) = [each["spec"]["template"]["spec"] for each in found if each["kind"] == "StatefulSet"]
    names = {each["name"]: each.get("value") for each in pod["containers"][0]["env"]}
    assert names["AWS_WEB_IDENTITY_TOKEN_FILE"] == "/var/run/store-identity/token"
    assert any("projected" in each for each in pod["volumes"])


def test_a_changed_file_starts_the_job_anew() -> None:
    """It reads a contract at its start."""

    def annotations(text: str) -> Any:
        found, _ = render({"files": {"rows.json": text}})
        return next(each for each in found if each["kind"] == "StatefulSet")["spec"]["template"]["metadata"]

    assert annotations("{}") != annotations('{"columns": {}}')
