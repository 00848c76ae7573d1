"""Charts for tests: the relevant combinations of values, rendered by the real helm; snapshots without certificates.

COMBINATIONS ──helm template──► Rendered ──► objects | snapshot text
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from e2e.controlplane import build
from tests.support.kube.assets import assets

ROOT = Path(__file__).resolve().parents[3]
CHARTS = ROOT / "charts"
HELM_SECONDS = 120
RELEASE = "fl"
NAMESPACE = "fairlead"

ROOMS = ("hub", "messaging", "ingest")
LONG_NAME = "shop-17.a-name-that-no-common-name-takes.rack-4.hall-2.datacenter-of-someone.example.com"
LONGEST_NAME = ".".join(["a" * 63, "b" * 63, "c" * 63, "d" * 61])
"""Of a node: 253 characters."""
BUDGET = {"podDisruptionBudget": {"enabled": True}}
MONITORING = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}

COMBINATIONS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "defaults": ("fairlead", {}),
    "node-port": (
        "fairlead",
        {
            "hub": {"service": {"type": "NodePort", "nodePort": 30900}, "hosts": ["192.0.2.7", "hub.example.com"]},
            "certificates": {"edges": ["edge-1", "edge-2.site.example", LONG_NAME, LONGEST_NAME]},
        },
    ),
    "load-balancer": (
        "fairlead",
        {
            "hub": {
                "service": {
                    "type": "LoadBalancer",
                    "annotations": {"example.com/pool": "edge"},
                    "loadBalancerClass": "example.com/internal",
                    "loadBalancerSourceRanges": ["192.0.2.0/24"],
                    "externalTrafficPolicy": "Local",
                }
            },
            "messaging": {"service": {"type": "LoadBalancer"}, "hosts": ["messaging.example.com"]},
        },
    ),
    "downstream-only": ("fairlead", {"messaging": {"enabled": False}, "ingest": {"enabled": False}}),
    "everything": (
        "fairlead",
        {
            "fullnameOverride": "fairlead",
            "image": {"registry": "registry.example/fairlead", "tag": "1.2.3", "pullSecrets": ["pull"]},
            "certificates": {"keepAuthorities": False, "days": 90},
            "hub": {
                "resources": [
                    {"apiGroups": [""], "resources": ["configmaps", "pods", "secrets"]},
                    {"apiGroups": ["apps"], "resources": ["deployments"]},
                ],
                "config": {"record": {"flush_seconds": 0.5}, "delivery": {"backoff_retries": 3}},
                "nodeSelector": {"disk": "fast"},
                "tolerations": [{"key": "edge", "operator": "Exists"}],
                "podAnnotations": {"prometheus.io/scrape": "true"},
                "podDisruptionBudget": {"enabled": True, "maxUnavailable": 0},
                "topologySpreadConstraints": [
                    {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}
                ],
                "priorityClassName": "system-cluster-critical",
            },
            "messaging": {
                "config": {"default_ttl_seconds": 604800, "system_topics": ["audit", "shard:4"]},
                "persistence": {"type": "claim", "size": "1Gi", "storageClass": "", "accessModes": ["ReadWriteOnce"]},
                "access": {
                    "more": [{"subject": "serviceaccount:shop:till", "verbs": ["publish"], "topics": ["shop/*"]}]
                },
                "tokenReview": {"enabled": True},
            },
            "ingest": {
                "topics": ["default/telemetry", "plant/alarms"],
                "config": {"spark": {"conf": {"spark.sql.shuffle.partitions": "4"}}},
                "persistence": {"type": "emptyDir", "size": "1Gi"},
            },
            "priorityClass": {"create": True},
            "networkPolicy": {
                "enabled": True,
                "metricsFrom": [MONITORING],
                "dnsTo": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}],
                "apiServer": {"to": [{"ipBlock": {"cidr": "192.0.2.1/32"}}], "ports": [6443]},
                "hub": {"linkFrom": [{"ipBlock": {"cidr": "198.51.100.0/24"}}]},
                "messaging": {
                    "clientsFrom": [{"podSelector": {"matchLabels": {"app": "shop"}}}],
                    "extraEgress": [{"to": [{"ipBlock": {"cidr": "203.0.113.7/32"}}]}],
                },
            },
            "monitoring": {"dashboards": {"enabled": True, "annotations": {"grafana_folder": "Fairlead"}}},
            "uninstall": {"removeCustomResources": True},
        },
    ),
    "locked-down": ("fairlead", {"networkPolicy": {"enabled": True}, **{room: BUDGET for room in ROOMS}}),
    "existing-certificates": ("fairlead", {"certificates": {"source": "existing"}}),
    "existing-authority": (
        "fairlead",
        {
            "certificates": {"source": "existing"},
            "hub": {
                "identity": {
                    "signer": "files",
                    "authoritySecret": "shops-authority",
                    "certificateDays": 30,
                    "lateDays": 0,
                    "installation": "shops.example.com",
                    "url": "wss://hub.example.com:443",
                }
            },
        },
    ),
    "cert-manager": (
        "fairlead",
        {"certificates": {"source": "cert-manager", "edges": ["edge-1", LONG_NAME]}, "hub": {"hosts": ["192.0.2.7"]}},
    ),
    "cert-manager-issuers": (
        "fairlead",
        {
            "certificates": {
                "source": "cert-manager",
                "certManager": {
                    "internal": {"issuerRef": {"name": "company", "kind": "ClusterIssuer"}},
                    "edge": {"issuerRef": {"name": "shops"}, "trust": {"kind": "ConfigMap", "name": "shops-authority"}},
                },
            },
            "messaging": {"enabled": False},
            "ingest": {"enabled": False},
        },
    ),
    "pipelines": (
        "fairlead",
        {
            "ingest": {
                "table": "s3://tables/telemetry",
                "env": [{"name": "AWS_REGION", "value": "us-east-1"}],
                "envFrom": [{"secretRef": {"name": "object-store"}}],
                "config": {
                    "storage": {"endpoint_url": "https://store.example.com"},
                    "pipelines": [
                        {"topics": ["plant/alarms"], "table": "/data/alarms", "checkpoint": "/data/alarms-checkpoint"}
                    ],
                },
            }
        },
    ),
    "executors": (
        "fairlead",
        {
            "ingest": {
                "table": "s3://tables/telemetry",
                "envFrom": [{"secretRef": {"name": "object-store"}}],
                "storeAuthority": {"secretName": "store-authority"},
                "tolerations": [{"key": "batch", "operator": "Exists"}],
                "nodeSelector": {"disk": "fast"},
                "config": {"storage": {"endpoint_url": "https://store.example.com"}},
                "spark": {
                    "mode": "kubernetes",
                    "executors": {
                        "instances": 3,
                        "cores": 2,
                        "cpuRequest": "500m",
                        "cpuLimit": "2",
                        "nodeSelector": {"pool": "spark"},
                        "topologySpreadConstraints": [
                            {
                                "maxSkew": 1,
                                "topologyKey": "kubernetes.io/hostname",
                                "whenUnsatisfiable": "DoNotSchedule",
                            }
                        ],
                        "podAnnotations": {"example.com/cost": "tables"},
                        "podTemplate": {"spec": {"runtimeClassName": "sandboxed"}},
                    },
                },
            },
            "networkPolicy": {"enabled": True},
        },
    ),
    "compaction": (
        "fairlead",
        {
            "ingest": {
                "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
                "compaction": {
                    "enabled": True,
                    "schedule": "0 3 * * 0",
                    "timeZone": "Europe/Berlin",
                    "zOrder": ["node"],
                    "vacuumAfterHours": 168,
                    "podAnnotations": {"example.com/cost": "tables"},
                },
            },
            "networkPolicy": {"enabled": True},
        },
    ),
    "contract": (
        "fairlead",
        {
            "ingest": {
                "table": "s3://tables/telemetry",
                "envFrom": [{"secretRef": {"name": "object-store"}}],
                "storeAuthority": {"secretName": "store-authority"},
                "serviceAccount": {"annotations": {"example.com/role": "tables"}},
                "files": {"telemetry.json": '{"columns": {"temperature": "double"}}'},
                "extraVolumes": [{"name": "catalog", "secret": {"secretName": "catalog"}}],
                "extraVolumeMounts": [{"name": "catalog", "mountPath": "/etc/catalog", "readOnly": True}],
                "tolerations": [{"key": "batch", "operator": "Exists"}],
                "config": {
                    "table_format": "iceberg",
                    "schema": "/etc/fairlead/files/telemetry.json",
                    "catalog": {
                        "type": "rest",
                        "uri": "https://catalog.example.com",
                        "credential_file": "/etc/catalog/credential",
                    },
                },
                "spark": {"mode": "kubernetes"},
                "compaction": {"enabled": True},
            },
            "networkPolicy": {
                "enabled": True,
                "ingest": {"extraEgress": [{"to": [{"ipBlock": {"cidr": "203.0.113.9/32"}}]}]},
            },
        },
    ),
    "edge-secrets": (
        "fairlead-edge",
        {
            "certificates": {
                "nodes": ["edge-1", "a-very-long-node-name-in-a.datacenter-of-someone.example.com", LONGEST_NAME],
                "source": "secrets",
            },
            "api": {"hostPort": 10550},
            "networkPolicy": {"enabled": True, "hubTo": [{"ipBlock": {"cidr": "198.51.100.7/32"}}]},
            "priorityClassName": "system-node-critical",
            "config": {"store": {"max_bytes": 268435456}},
        },
    ),
    "edge-token": ("fairlead-edge", {"certificates": {"source": "token"}}),
    "edge-tokens": (
        "fairlead-edge",
        {
            "certificates": {"source": "token", "nodes": ["edge-1", LONGEST_NAME]},
            "data": {"prepare": False},
            "hubUrl": "wss://hub.example.com:443",
        },
    ),
    "edge-host": (
        "fairlead-edge",
        {"certificates": {"source": "host"}, "data": {"hostPath": "/srv/fairlead", "prepare": False}},
    ),
}
"""Every values combination the tests use: name to chart and values."""


@functools.cache
def helm_program() -> Path | None:
    """helm, from the cache or the PATH; built (about a minute) where FAIRLEAD_E2E=required; else None."""
    if os.environ.get("FAIRLEAD_E2E") == "required":
        return assets("helm") / "helm"
    folders = [build.assets_of(os.environ), build.cache_root(os.environ) / build.fingerprint()]
    here = next((folder / "helm" for folder in folders if folder and build.is_program(folder / "helm")), None)
    found = shutil.which("helm")
    return here or (Path(found) if found else None)


def helm(*arguments: str, kubeconfig: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run helm, without settings and caches in the home folder."""
    program = helm_program()
    assert program is not None, "helm is not here"
    with tempfile.TemporaryDirectory() as folder:
        places = {f"HELM_{name}_HOME": folder for name in ("CACHE", "CONFIG", "DATA")}
        return subprocess.run(
            [str(program), *arguments],
            env={**os.environ, **places, "KUBECONFIG": str(kubeconfig or "/dev/null")},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=HELM_SECONDS,
        )


def helm_with(values: Mapping[str, Any], *arguments: str, kubeconfig: Path | None = None) -> str:
    """Run helm with these values; raises AssertionError with its error."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(values, file)
        file.flush()
        done = helm(*arguments, "--values", file.name, kubeconfig=kubeconfig)
    assert done.returncode == 0, f"helm {' '.join(arguments)}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


@functools.cache
def rendered(name: str) -> str:
    """The manifests of a combination, as helm prints them."""
    chart, values = COMBINATIONS[name]
    return helm_with(values, "template", RELEASE, str(CHARTS / chart), "--namespace", NAMESPACE)


def objects(name: str) -> list[dict[str, Any]]:
    """The manifests of a combination, parsed."""
    return [found for found in yaml.safe_load_all(rendered(name)) if found]


def pods(name: str) -> dict[str, dict[str, Any]]:
    """Every Pod spec of a combination, by the name of its owner."""
    specs = {}
    for found in objects(name):
        if found["kind"] == "Pod":
            specs[found["metadata"]["name"]] = found["spec"]
        elif found["kind"] == "CronJob":
            specs[found["metadata"]["name"]] = found["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        elif "template" in found.get("spec", {}):
            specs[found["metadata"]["name"]] = found["spec"]["template"]["spec"]
    return specs


def snapshot(name: str) -> str:
    """The manifests without what differs in every rendering: keys, certificates and their times."""
    text = re.sub(r"^(  (?:(?:\w+\.)?(?:crt|key)|secret)): \S+$", r"\1: (made)", rendered(name), flags=re.MULTILINE)
    return re.sub(r"(fairlead.dev/(?:renew-after|fits)): \S+", r"\1: (made)", text)
