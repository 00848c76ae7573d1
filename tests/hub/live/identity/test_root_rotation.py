"""The internal root is replaced while agents are connected and one is away, with real processes, as the page says."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from tests.support.hubs.hub import CRDS
from tests.support.joining.identity_site import IdentitySite, connected, said, until
from tests.support.joining.pki import Authority
from tests.support.kube.cluster import Cluster

from fairlead_wire.identity import authority_bundle

PAGE = Path(__file__).parents[4] / "docs" / "howto" / "rotate-an-authority.md"
DAY_SECONDS = 86_400
ONLINE = ("shop-1", "shop-2")
AWAY = "shop-3"
pytestmark = pytest.mark.verify


@pytest.fixture
def site(cluster: Cluster, tmp_path: Path) -> Iterator[IdentitySite]:
    cluster.apply(CRDS)
    cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")
    made = IdentitySite(cluster, tmp_path)
    yield made
    made.close()
    cluster.kubectl("delete", "nodes,edgenodes,jointokens,leases", "--all", "--wait=true")


def typed(number: int, folder: Path, test: str = "test_root_rotation") -> None:
    """What the page says to type."""
    found = re.findall(rf"<!-- by tests/hub/live/identity/{test}.py -->\n```sh\n(.+?)```", PAGE.read_text(), re.DOTALL)
    subprocess.run(["bash", "-euc", found[number]], cwd=folder, check=True, capture_output=True)


def put(content: bytes, path: Path) -> None:
    """In one step, as a Secret is brought."""
    draft = path.with_name(f"{path.name}.draft")
    draft.write_bytes(content)
    draft.chmod(0o600)
    os.replace(draft, path)


def held(site: IdentitySite) -> dict[str, int]:
    found = re.findall(r'fairlead_hub_authorities_held\{bundle="(.+?)"\} (\d+)', site.hub.text("/metrics"))
    return {name: int(count) for name, count in found if int(count)}


def believed(agent: Any) -> bytes:
    return bytes((agent.folder / "data" / "identity" / "authorities.pem").read_bytes())


def reloaded(site: IdentitySite, change: Any) -> None:
    before = len(site.hub.events("tls_reloaded"))
    change()
    until("the hub has read it", lambda: len(site.hub.events("tls_reloaded")) > before)


def test_no_node_is_lost_while_the_root_is_replaced(site: IdentitySite, tmp_path: Path) -> None:
    """Online nodes get each step in their sessions; the one that was away comes by the cross-signed root."""
    agents = {name: site.agent(name) for name in (*ONLINE, AWAY)}
    for name in agents:
        site.node(name)
    typing = tmp_path / "typing"
    typing.mkdir()
    trusted, old_root = site.internal.certificate, site.internal.certificate.read_bytes()
    (typing / "internal.crt").write_bytes(old_root)
    (typing / "old.key").write_bytes(site.internal.key.read_bytes())
    site.hub.start()
    for name in ONLINE:
        agents[name].start()
    for name in ONLINE:
        connected(agents[name])
    until("all hold the old root", lambda: held(site) == {"newest": 2})

    typed(0, typing)
    put((typing / "internal.crt").read_bytes(), trusted)
    until("the hub says both", lambda: len(site.hub.events("authorities_announced")) == 2)
    until("all hold both", lambda: held(site) == {"newest": 2})
    for name in ONLINE:
        assert authority_bundle.digest(believed(agents[name])) == authority_bundle.digest(trusted.read_bytes())
    assert len(site.hub.events("session_opened")) == 2, "in the sessions that were open"

    key: Any = serialization.load_pem_private_key((typing / "root.key").read_bytes(), None)
    new = Authority(tmp_path / "new", "internal 2027", private_key=key)
    server = new.issue("hub", hosts=("127.0.0.1",))
    (typing / "hub.crt").write_bytes(server.certificate.read_bytes())
    typed(1, typing)

    def show() -> None:
        put((typing / "hub-chain.crt").read_bytes(), site.server.certificate)
        put(server.key.read_bytes(), site.server.key)

    reloaded(site, show)
    root = (typing / "root.crt").read_bytes()
    put(root, trusted)
    until("the old root is gone everywhere", lambda: {believed(agents[name]) for name in ONLINE} == {root})
    until("and they say so", lambda: held(site) == {"newest": 2})
    assert len(site.hub.events("session_opened")) == 2 and not site.hub.events("authorities_unfit")

    agents[AWAY].start()
    connected(agents[AWAY])
    until("the node that was away has it, too", lambda: believed(agents[AWAY]) == root, agents[AWAY])
    until("all hold the new root alone", lambda: held(site) == {"newest": 3})
    assert site.hub.stop() == 0
    put(server.certificate.read_bytes(), site.server.certificate)
    site.hub.start()
    for agent in agents.values():
        connected(agent)
    until("all are back without the cross-signed root", lambda: held(site) == {"newest": 3})
    for agent in agents.values():
        assert agent.stop() == 0 and '"traceback"' not in agent.log.read_text()
    assert site.hub.stop() == 0 and '"traceback"' not in (site.folder / "hub.log").read_text()


def test_an_authority_that_would_lock_nodes_out_is_announced_to_none(site: IdentitySite, tmp_path: Path) -> None:
    """And a new authority of nodes asks open sessions to renew within a day."""
    site.node("shop-1")
    agent = site.agent("shop-1")
    site.hub.start()
    agent.start()
    connected(agent)
    until("it holds the root", lambda: held(site) == {"newest": 1})
    before = believed(agent)
    put(Authority(tmp_path / "other", "other").certificate.read_bytes(), site.internal.certificate)
    until("the hub says that it is wrong", lambda: site.hub.events("authorities_unfit"))
    put(before, site.internal.certificate)

    def due() -> float:
        return float(said(agent)["identity"]["renewal"]["inSeconds"] or 0.0)

    assert due() > DAY_SECONDS
    typing = tmp_path / "typing"
    typing.mkdir()
    (typing / "nodes.crt").write_bytes(site.edges.certificate.read_bytes())
    (typing / "nodes.key").write_bytes(site.edges.key.read_bytes())
    for number in range(2):
        typed(number, typing, "test_rotation")
    for path in (site.edges.certificate, site.signing):
        put((typing / "nodes.crt").read_bytes(), path)
    put((typing / "nodes.key").read_bytes(), site.edges.key)
    until("it is asked to renew within a day", lambda: due() <= DAY_SECONDS, agent)
    assert len(site.hub.events("session_opened")) == 1 and believed(agent) == before
    assert agent.stop() == 0
    assert site.hub.stop() == 0
