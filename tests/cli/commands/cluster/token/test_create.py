"""`fairlead token` on the real API server: what is printed, what is kept, and what is refused."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.hubs.hub import CRDS, edge_node
from tests.support.joining.pki import Authority
from tests.support.joining.tokens_command import PIN, URL, get, run
from tests.support.kube.cluster import Cluster

from fairlead_cli.cluster import join_tokens, target
from fairlead_wire.identity import authority_bundle, join_token


@pytest.mark.kube
def test_a_token_for_a_node(tokens: Cluster) -> None:
    """The text, the line to paste, and in the cluster the hash alone."""
    tokens.apply(edge_node("shop-1"))
    done = run(tokens, "create", "--node", "shop-1", "--ttl", "2h")
    assert done.exit_code == 0, done.output
    text, line = done.stdout.splitlines()
    token = join_token.parse(text)
    assert token.pins == (PIN,)
    assert line == f"echo {text} | sudo fairlead edge join {URL} --token-file - --node shop-1"
    assert done.stderr.startswith("The token admits node shop-1, until 20") and "no Node" not in done.stderr
    kept = get(tokens, text)
    assert token.secret not in json.dumps(kept)
    assert kept["spec"]["secretSHA256"] == join_token.hash_of(token.secret)
    assert (kept["spec"]["node"], kept["spec"]["uses"], kept["spec"]["replace"]) == ("shop-1", 1, False)
    ends = datetime.datetime.fromisoformat(kept["spec"]["expires"]) - datetime.datetime.now(datetime.UTC)
    assert datetime.timedelta(minutes=100) < ends <= datetime.timedelta(hours=2)


@pytest.mark.kube
@pytest.mark.parametrize(
    "words", [("--replace", "shop-2"), ("--node", "shop-2", "--replace"), ("--replace", "--node", "shop-2")]
)
def test_a_token_for_another_device(tokens: Cluster, words: tuple[str, ...]) -> None:
    """In each order; it says what will happen."""
    done = run(tokens, "create", *words)
    assert done.exit_code == 0 and "the identity that the node has now is revoked" in done.stderr, done.output
    spec = get(tokens, done.stdout.splitlines()[0])["spec"]
    assert (spec["node"], spec["replace"]) == ("shop-2", True)


@pytest.mark.kube
def test_a_token_for_many(tokens: Cluster) -> None:
    """By a pattern; the device says its own name."""
    done = run(tokens, "create", "--pattern", "shop-*", "--uses", "50", "--ttl", "30d", "-o", "json")
    made = json.loads(done.stdout)
    assert made["spec"]["pattern"] == "shop-*" and made["spec"]["uses"] == 50 and made["hub"] == URL
    assert made["command"].endswith('--token-file - --node "$(hostname)"')
    assert get(tokens, made["token"])["spec"] == made["spec"]


@pytest.mark.kube
def test_a_node_that_is_not_there(tokens: Cluster) -> None:
    """Said, or made with the label; one without the label is said, too."""
    done = run(tokens, "create", "--node", "shop-3")
    assert "there is no Node shop-3 yet" in done.stderr
    done = run(tokens, "create", "--node", "shop-3", "--create-node")
    assert "made the Node shop-3" in done.stderr
    assert join_tokens.EDGE_LABEL in tokens.get("/api/v1/nodes/shop-3")["metadata"]["labels"]
    tokens.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "shop-4"}})
    done = run(tokens, "create", "--node", "shop-4", "--create-node")
    assert f"kubectl label node shop-4 {join_tokens.EDGE_LABEL}=" in done.stderr


@pytest.mark.kube
def test_a_token_for_each_line(tokens: Cluster, tmp_path: Path) -> None:
    """In their order, one a line and nothing else; Nodes are made on the way."""
    names = [f"line-{number}" for number in range(40)]
    file = tmp_path / "names.txt"
    file.write_text("\ufeff# the first pallet\r\n" + "\n".join(names) + "\n\n", newline="")
    done = run(tokens, "create", "--file", str(file), "--create-node")
    assert done.exit_code == 0, done.output
    texts = done.stdout.splitlines()
    assert [get(tokens, text)["spec"]["node"] for text in texts] == names
    assert "join tokens: 40 in " in done.stderr and "made the Nodes line-0," in done.stderr
    done = run(tokens, "create", "--file", "-", "-o", "jsonpath={.items[*].spec.node}", given="line-0\nline-1\n")
    assert done.stdout == "line-0 line-1"


@pytest.mark.kube
def test_one_that_cannot_be_made_stops_no_other(tokens: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named, and the exit code is 1."""
    create = join_tokens.create

    async def refuse_one(kube: Any, wanted: Any, whom: str) -> Any:
        from fairlead_hub.io.cluster.api_error import ApiRefused

        if whom == "line-b":
            raise ApiRefused(403, "quota")
        return await create(kube, wanted, whom)

    monkeypatch.setattr(join_tokens, "create", refuse_one)
    done = run(tokens, "create", "--file", "-", given="line-a\nline-b\nline-c\n")
    assert done.exit_code == 1 and len(done.stdout.splitlines()) == 2
    assert "line-b: quota\n" in done.stderr and "1 of 3 tokens could not be made" in done.stderr


@pytest.mark.kube
def test_who_may_not_see_nodes_gets_the_token(tokens: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is shown only once, so it is printed before anything else can fail."""
    from fairlead_hub.io.cluster.api_error import ApiRefused

    async def refused(*_: Any) -> Any:
        raise ApiRefused(403, "nodes is forbidden")

    monkeypatch.setattr(join_tokens, "strangers", refused)
    done = run(tokens, "create", "--node", "shop-7")
    assert done.exit_code == 0 and get(tokens, done.stdout.splitlines()[0])["spec"]["node"] == "shop-7"
    assert "whether the Node is there was not found out: " in done.stderr and "nodes is forbidden" in done.stderr
    done = run(tokens, "create", "--node", "shop-7", "--create-node")
    assert done.exit_code == 1 and join_token.parse(done.stdout.splitlines()[0])


@pytest.mark.kube
def test_the_end_is_by_the_clock_of_the_cluster(tokens: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A laptop that is a year behind makes no token that ended before it was made."""
    there = datetime.datetime(2036, 1, 1, tzinfo=datetime.UTC)
    monkeypatch.setattr(target, "now", lambda kube: there)
    done = run(tokens, "create", "--node", "shop-8", "--ttl", "2h")
    assert get(tokens, done.stdout.splitlines()[0])["spec"]["expires"] == "2036-01-01T02:00:00Z"
    assert "s off the API server's, whose time was taken" in done.stderr


@pytest.mark.kube
def test_without_a_hub_the_token_is_taken_back(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless both things are said that a hub would say."""
    cluster.apply(CRDS)
    cluster.kubectl("wait", "--for=condition=Established", "crd", "jointokens.fairlead.dev", "--timeout=120s")
    monkeypatch.setattr(join_tokens, "HUB_SECONDS", 0.0)
    monkeypatch.setattr(join_tokens, "introduced", _never)
    before = cluster.get(f"/{join_tokens.PATH}")["items"]
    done = run(cluster, "create", "--node", "shop-5", "--hub", URL)
    assert done.exit_code == 1 and "no hub has seen the token within 0 s" in done.stderr and done.stdout == ""
    assert len(cluster.get(f"/{join_tokens.PATH}")["items"]) == len(before)
    authority = Authority(tmp_path).certificate
    done = run(cluster, "create", "--node", "shop-5", "--ca-file", str(authority))
    assert join_token.parse(done.stdout.splitlines()[0]).pins == tuple(authority_bundle.by_pin(authority.read_bytes()))
    assert "put it in place of wss://HUB:PORT" in done.stderr
    done = run(cluster, "create", "--node", "shop-5", "--ca-file", str(authority), "--hub", URL)
    assert URL in done.stdout and "HUB:PORT" not in done.output


async def _never(*_: Any) -> None:
    return None
