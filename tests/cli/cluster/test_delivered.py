"""Objects by the names people give them, and what nodes are given of them."""

from __future__ import annotations

import json

import click
import pytest

from fairlead_cli.cluster import delivered
from fairlead_hub.cluster.content import ServedKind

CONFIG_MAP = ServedKind(group="", version="v1", kind="ConfigMap", plural="configmaps", namespaced=True)
NODE = ServedKind(group="", version="v1", kind="Node", plural="nodes", namespaced=False)


def test_names() -> None:
    assert delivered.split("cm/prices") == ("cm", "prices")
    for text in ("prices", "cm/", "/prices", "cm/a/b", ""):
        with pytest.raises(click.UsageError):
            delivered.split(text)


def test_paths() -> None:
    assert delivered.path_of(CONFIG_MAP, "shop", "a") == "api/v1/namespaces/shop/configmaps/a"
    assert delivered.path_of(NODE, "shop", "../x") == "api/v1/nodes/..%2Fx"


def test_what_nodes_are_given() -> None:
    metadata = {"name": "a", "namespace": "shop", "uid": "u-1", "resourceVersion": "3", "managedFields": [{}]}
    item = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "1"}}
    found = delivered.Delivered(CONFIG_MAP, "path", item, json.dumps(item).encode())
    shown = delivered.content(found)
    assert shown["data"] == {"a": "1"} and "managedFields" not in shown["metadata"]
