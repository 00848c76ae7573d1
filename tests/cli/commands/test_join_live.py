"""From a token to the first object and message, and to another device in place of the first: all real programs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.hubs.hub import config_map, sync_rule
from tests.support.joining.joined_device import JoinedDevice, JoinSite
from tests.support.kube.cluster import Cluster
from tests.support.processes import wait_until
from tests.support.topics.messaging_service import MessagingService

from fairlead_edge.io.identity.identity_files import IdentityFiles

pytestmark = pytest.mark.verify

ROUTES = {
    "apiVersion": "fairlead.dev/v1alpha1",
    "kind": "EdgeRoutes",
    "metadata": {"name": "all"},
    "spec": {
        "schemaVersion": "1.1.0",
        "routes": {"all": "FROM /messages/* INTO $upstream"},
        "storeAndForwardConfiguration": {"timeToLiveSecs": 7200},
    },
}
TOPIC = "default/telemetry"


@pytest.fixture
def devices() -> Iterator[list[JoinedDevice]]:
    """None outlives the test."""
    started: list[JoinedDevice] = []
    yield started
    for device in started:
        if device.running is not None:
            device.kill()


@pytest.fixture
def site(cluster: Cluster, tmp_path: Path) -> Iterator[JoinSite]:
    running = JoinSite(cluster, tmp_path).start()
    yield running
    running.stop()


def has_object(device: JoinedDevice, namespace: str) -> bool:
    return device.authorized("GET", f"/api/v1/namespaces/{namespace}/configmaps/prices")[0] == 200


def test_from_a_token_to_the_first_object(
    site: JoinSite, namespace: str, tmp_path: Path, devices: list[JoinedDevice]
) -> None:
    """Token, join, run: nothing else is done by hand. A second device with the same token gets nothing."""
    site.cluster.apply(config_map("prices", namespace, v="1"))
    site.cluster.apply(sync_rule("join", {"apiVersion": "v1", "kind": "ConfigMap", "namespaces": [namespace]}))
    token, line = site.create("--node", "shop-17", "--create-node")
    assert line.endswith(f"fairlead edge join {site.url} --token-file - --node shop-17")
    devices += [JoinedDevice(tmp_path / "first"), JoinedDevice(tmp_path / "second")]
    device, thief = devices
    began = time.monotonic()
    done = device.join(site.url, token, "--node", "shop-17")
    assert done.returncode == 0, done.stderr + site.hub.tail()
    device.start()
    wait_until("the first object", lambda: has_object(device, namespace), seconds=120, describe=site.hub.tail)
    print(f"join to first object: {time.monotonic() - began:.2f} s")
    assert device.config.read_text().startswith("# first\n") and token not in site.hub.tail()

    refused = thief.join(site.url, token)
    assert refused.returncode == 1 and refused.stderr.startswith("Error: token_used: the token was used on ")
    assert IdentityFiles.of(thief.folder / "edge-data").current() is None
    current = IdentityFiles.of(device.folder / "edge-data").current()
    assert current is not None
    path = "/apis/fairlead.dev/v1alpha1/edgenodes/shop-17"

    def serial() -> str:
        identity = site.cluster.get(path).get("status", {}).get("identity") or {}
        return str(identity.get("serial", ""))

    wait_until("the account", lambda: serial() == current.certificate.serial, seconds=120, describe=site.hub.tail)


def test_another_device_in_place_of_the_first(
    cluster: Cluster, namespace: str, tmp_path: Path, devices: list[JoinedDevice]
) -> None:
    """The first disk is thought lost and is not: it is cut when the second one joins, and stays out.

    Each message that either of them accepted is in the topic once at most: what reached it, from both; nothing twice.
    """
    messaging = MessagingService(tmp_path / "messaging").start()
    site = JoinSite(cluster, tmp_path, top=f'messaging_url = "{messaging.url}"').start()
    try:
        site.cluster.apply(ROUTES)
        devices += [JoinedDevice(tmp_path / "first"), JoinedDevice(tmp_path / "second")]
        first, second = devices
        assert first.join(site.url, site.token("--node", "shop-17", "--create-node")).returncode == 0
        first.start()
        accepted = publish(first, 30)
        wait_until("the first messages", lambda: len(in_topic(messaging)) >= 30, seconds=120, describe=site.hub.tail)

        taken = second.join(site.url, site.token("--pattern", "shop-*"), "--node", "shop-17")
        assert taken.returncode == 1 and "name_taken" in taken.stderr, taken.stderr
        token = site.token("--replace", "shop-17")
        assert first.get("/healthz")[0] == 200, "the old device works until the new one joins"
        done = second.join(site.url, token, "--node", "shop-17")
        assert done.returncode == 0, done.stderr + site.hub.tail()
        wait_until("the old one is cut", lambda: "revoked" in ends(first), seconds=120, describe=site.hub.tail)
        late = publish(first, 10)  # it still accepts, and cannot deliver
        second.start()
        accepted += publish(second, 30)
        wait_until("all messages", lambda: len(in_topic(messaging)) >= 60, seconds=120, describe=site.hub.tail)

        first.kill()
        first.start()  # started again it stays out
        wait_until("it is refused again", lambda: len(ends(first)) > 1, seconds=120, describe=site.hub.tail)
        accepted += publish(second, 5)
        wait_until("the last messages", lambda: len(in_topic(messaging)) >= 65, seconds=120, describe=site.hub.tail)
        found = in_topic(messaging)
        ids = [each["id"] for each in found]
        assert sorted(ids) == sorted(accepted) and not set(ids) & set(late)
        keys = {(each["node"], each["epoch"], each["stream"], each["sequence"]) for each in found}
        assert len(keys) == len(found) and {each["node"] for each in found} == {"shop-17"}
        assert len({each["epoch"] for each in found}) == 2, "each disk has its own epoch"
    finally:
        site.stop()
        messaging.stop()


def publish(device: JoinedDevice, count: int) -> list[str]:
    """As a local program: until all are accepted; their ids."""
    body = {"messages": [{"source": "/messages/modules/m/outputs/o", "body": {"n": number}} for number in range(count)]}
    answers: list[tuple[int, Any]] = []

    def accepted() -> bool:
        answers.append(device.authorized("POST", "/v1/messages", body))
        return answers[-1][0] == 200  # 503 until the routes are there

    wait_until("messages are accepted", accepted, seconds=120, describe=lambda: str(answers[-1:]))
    return [each["id"] for each in answers[-1][1]["results"]]


def in_topic(messaging: MessagingService) -> list[dict[str, Any]]:
    return [json.loads(each) for each in messaging.payloads(TOPIC)]


def ends(device: JoinedDevice) -> list[str]:
    """Codes with which its sessions and attempts ended."""
    return [each["code"] for each in device.events() if each["event"] == "link_down"]


def test_a_thousand_tokens_for_an_image_line(site: JoinSite, tmp_path: Path, devices: list[JoinedDevice]) -> None:
    """One a line; the last one joins, and each admits its own node alone."""
    names = tmp_path / "names.txt"
    names.write_text("".join(f"line-{number}\n" for number in range(1000)))
    began = time.monotonic()
    tokens = site.create("--file", str(names), "--ttl", "30d", "--create-node")
    print(f"1,000 tokens: {time.monotonic() - began:.2f} s")
    assert len(tokens) == len(set(tokens)) == 1000
    devices.append(device := JoinedDevice(tmp_path / "device"))
    refused = device.join(site.url, tokens[999], "--node", "line-998")
    assert refused.returncode == 1 and "token_node" in refused.stderr, refused.stderr
    done = device.join(site.url, tokens[999])
    assert done.returncode == 0 and "joined as line-999" in done.stdout, done.stderr
