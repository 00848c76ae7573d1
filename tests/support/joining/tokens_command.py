"""`fairlead token` as a user runs it, and the result in the cluster."""

from __future__ import annotations

from typing import Any

from click.testing import CliRunner, Result
from tests.support.kube.cluster import Cluster

from fairlead_cli.cluster import join_tokens
from fairlead_cli.main import build
from fairlead_wire.identity import join_token

URL = "wss://hub.example.com:10000"
PIN = "ab" * 32


def run(cluster: Cluster, *words: str, given: str = "") -> Result:
    arguments = ["token", *words, "--kubeconfig", str(cluster.kubeconfig)]
    return CliRunner().invoke(build(), arguments, input=given)


def get(cluster: Cluster, text: str) -> dict[str, Any]:
    found: dict[str, Any] = cluster.get(f"/{join_tokens.PATH}/{join_token.parse(text).id}")
    return found
