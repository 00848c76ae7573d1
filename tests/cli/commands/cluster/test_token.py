"""`fairlead token` on the real API server: what is printed, what is kept, and what is refused."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.support.hubs.hub import CRDS, edge_node
from tests.support.joining.pki import Authority
from tests.support.joining.token_hub import introducing
from tests.support.joining.tokens_command import PIN, URL, get, run
from tests.support.kube import api_in_memory
from tests.support.kube.api_in_memory import ApiInMemory
from tests.support.kube.cluster import Cluster

from fairlead_cli.cluster import join_tokens, target
from fairlead_cli.commands.cluster.token import view
from fairlead_cli.main import build
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
    done = run(tokens, "create", *words)
    assert done.exit_code == 0 and "the node's current identity is revoked" in done.stderr, done.output
    spec = get(tokens, done.stdout.splitlines()[0])["spec"]
    assert (spec["node"], spec["replace"]) == ("shop-2", True)


@pytest.mark.kube
def test_a_token_for_many(tokens: Cluster) -> None:
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
    assert "created the Node shop-3" in done.stderr
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
    assert "join tokens: 40 in " in done.stderr and "created the Nodes line-0," in done.stderr
    done = run(tokens, "create", "--file", "-", "-o", "jsonpath={.items[*].spec.node}", given="line-0\nline-1\n")
    assert done.stdout == "line-0 line-1"


@pytest.mark.kube
def test_one_that_cannot_be_made_stops_no_other(tokens: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    create = join_tokens.create

    async def refuse_one(kube: Any, wanted: Any, whom: str) -> Any:
        from fairlead_hub.io.cluster.api_error import ApiRefused

        if whom == "line-b":
            raise ApiRefused(403, "quota")
        return await create(kube, wanted, whom)

    monkeypatch.setattr(join_tokens, "create", refuse_one)
    done = run(tokens, "create", "--file", "-", given="line-a\nline-b\nline-c\n")
    assert done.exit_code == 1 and len(done.stdout.splitlines()) == 2
    assert "line-b: quota\n" in done.stderr and "1 of 3 tokens could not be created" in done.stderr


@pytest.mark.kube
def test_who_may_not_see_nodes_gets_the_token(tokens: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is shown only once, so it is printed before anything else can fail."""
    from fairlead_hub.io.cluster.api_error import ApiRefused

    async def refused(*_: Any) -> Any:
        raise ApiRefused(403, "nodes is forbidden")

    monkeypatch.setattr(join_tokens, "unsuitable_nodes", refused)
    done = run(tokens, "create", "--node", "shop-7")
    assert done.exit_code == 0 and get(tokens, done.stdout.splitlines()[0])["spec"]["node"] == "shop-7"
    assert "could not check whether the Node exists: " in done.stderr and "nodes is forbidden" in done.stderr
    done = run(tokens, "create", "--node", "shop-7", "--create-node")
    assert done.exit_code == 1 and join_token.parse(done.stdout.splitlines()[0])


@pytest.mark.kube
def test_the_end_is_by_the_clock_of_the_cluster(tokens: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A laptop that is a year behind makes no token that ended before it was made."""
    there = datetime.datetime(2036, 1, 1, tzinfo=datetime.UTC)
    monkeypatch.setattr(target, "server_time", lambda kube: there)
    done = run(tokens, "create", "--node", "shop-8", "--ttl", "2h")
    assert get(tokens, done.stdout.splitlines()[0])["spec"]["expires"] == "2036-01-01T02:00:00Z"
    assert "the API server's time was used" in done.stderr


@pytest.mark.kube
def test_without_a_hub_the_token_is_taken_back(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    assert "replace wss://HUB:PORT with it" in done.stderr
    done = run(cluster, "create", "--node", "shop-5", "--ca-file", str(authority), "--hub", URL)
    assert URL in done.stdout and "HUB:PORT" not in done.output


async def _never(*_: Any) -> None:
    return None


# ---- `fairlead token` ----


# ---- the table of join tokens ----


NOW = datetime.datetime(2026, 11, 20, 12, 0, tzinfo=datetime.UTC)
FAR, PAST = "9000-01-01T00:00:00Z", "2001-01-01T00:00:00Z"
SEEN: dict[str, Any] = {"pins": ["ab" * 32], "url": "wss://hub:10000"}


def cell(column: str, spec: dict[str, Any], status: dict[str, Any] | None) -> object:
    row = {"metadata": {"name": "abcdefghij"}, "spec": spec, **({} if status is None else {"status": status})}
    [found] = [each for each in view(NOW).columns if each.name == column]
    return found.value(row)


@pytest.mark.parametrize(
    ("spec", "status", "state"),
    [
        ({"node": "a", "expires": FAR}, None, "Unseen"),
        ({"node": "a", "expires": FAR}, SEEN, "Good"),
        ({"node": "a", "expires": PAST}, SEEN, "Expired"),
        ({"node": "a", "expires": "2001-01-01T00:00:00"}, SEEN, "Expired"),
        ({"node": "a", "expires": FAR}, {**SEEN, "uses": [{"node": "a"}]}, "Used"),
        ({"node": "a", "expires": PAST}, {**SEEN, "uses": [{"node": "a"}]}, "Used"),
        ({"pattern": "a*", "uses": 2, "expires": FAR}, {**SEEN, "uses": [{"node": "a1"}]}, "Good"),
        ({"node": "a", "expires": "soon"}, SEEN, "Good"),
        ({"node": "a", "expires": "2026-11-20T12:00:01Z"}, SEEN, "Good"),
        ({"node": "a", "expires": "2026-11-20T12:00:00Z"}, SEEN, "Expired"),
    ],
)
def test_state(spec: dict[str, Any], status: dict[str, Any] | None, state: str) -> None:
    """Used up is said before expired; what cannot be read as a time does not expire. The moment is the API server's."""
    assert cell("STATE", spec, status) == state


def test_whom_it_admits_and_admitted() -> None:
    uses = {**SEEN, "uses": [{"node": "a1"}, {"node": "a2"}]}
    spec = {"pattern": "a*", "uses": 5, "expires": FAR}
    assert [cell(each, spec, uses) for each in ("ADMITS", "USED", "NODES")] == ["a*", "2/5", "a1,a2"]
    assert str(cell("EXPIRES", spec, uses)).startswith("in ")
    assert str(cell("EXPIRES", {"node": "a", "expires": PAST}, SEEN)).endswith(" ago")


# ---- `fairlead token create` ----


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "give exactly one of --node NAME, --pattern 'shop-*' and --file FILE"),
        (("--node", "a", "--pattern", "b*"), "give exactly one of"),
        (("--node", "a", "--uses", "2"), "--uses is for --pattern"),
        (("--node", "A"), "'A' cannot be the name of a Node: use only lower-case letters, digits, '-' and '.'"),
        (("--pattern", "shop"), "write the beginning of the names, then *"),
        (("--pattern", "*-shop-*"), "write the beginning of the names, then *"),
        (("--pattern", "a*", "--replace"), "--replace needs the name of the node"),
        (("--pattern", "a*", "--create-node"), "--create-node needs names"),
        (("--pattern", "a*", "--uses", "10001"), "10001 is not in the range"),
        (("--replace", "a", "--node", "b"), "are two nodes; name one"),
        (("--node", "a", "--ttl", "31d"), "must be from 1m to 30d"),
        (("--node", "a", "--hub", "https://hub"), "is not the URL of a hub"),
        (("--node", "a", "--ca-file", __file__), "holds no certificates in PEM"),
        (("--file", "-"), "holds no names; write one per line"),
    ],
)
def test_wrong_use_is_exit_code_2(words: tuple[str, ...], sentence: str) -> None:
    done = CliRunner().invoke(build(), ["token", "create", *words])
    assert done.exit_code == 2 and sentence in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("shop-1\nShop-2\n", ":2: 'Shop-2' cannot be the name of a Node"),
        ("shop-1\n\nshop-1 # again\n", ":3: shop-1 is there twice, first in line 1"),
        ("".join(f"n{each}\n" for each in range(10_001)), "more than 10,000 names; split the file"),
    ],
)
def test_names_are_all_checked_first(text: str, sentence: str) -> None:
    done = CliRunner().invoke(build(), ["token", "create", "--file", "-"], input=text)
    assert done.exit_code == 2 and sentence in done.stderr, done.stderr[-300:]


IDENTITY = {"issued": PAST, "expires": FAR, "state": "Valid"}


@pytest.mark.parametrize(
    ("words", "identity", "said"),
    [
        (
            ("--node", "a"),
            IDENTITY,
            "a device has joined as a, so the hub refuses another one (name_taken); to replace it",
        ),
        (("--node", "a"), {**IDENTITY, "state": "Revoked"}, ""),
        (("--node", "a"), {**IDENTITY, "expires": PAST}, ""),
        (("--node", "a"), {}, ""),
        (("--node", "b"), IDENTITY, ""),
        (("--node", "a", "--replace"), IDENTITY, ""),
        (("--node", "a", "--replace"), {**IDENTITY, "state": "Revoked"}, ""),
        (("--node", "b", "--replace"), IDENTITY, "no device has connected as b yet, so there is nothing to replace"),
        (("--pattern", "a*"), IDENTITY, "admits one node whose name matches a*, until"),
        (("--pattern", "a*", "--uses", "5"), IDENTITY, "admits up to 5 nodes whose names match a*, until"),
    ],
)
def test_a_name_that_a_device_has_is_said(
    words: tuple[str, ...], identity: dict[str, Any], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On standard error, after the token."""
    api = ApiInMemory({
        api_in_memory.EDGE_NODES: [{"metadata": {"name": "a"}, "status": {"identity": identity}}],
        api_in_memory.NODES: [edge_node("a"), edge_node("b")],
    })  # fmt: skip
    api.is_asked(monkeypatch)
    monkeypatch.setattr(target, "server_time", lambda kube: NOW)
    authority = Authority(tmp_path).certificate
    done = CliRunner().invoke(build(), ["token", "create", *words, "--hub", URL, "--ca-file", str(authority)])
    assert done.exit_code == 0 and join_token.parse(done.stdout.splitlines()[0]), done.output
    assert said in done.stderr if said else "device has" not in done.stderr.partition("Paste")[2], done.stderr


def test_a_file_that_is_no_text_is_wrong_use(tmp_path: Path) -> None:
    file = tmp_path / "names.xls"
    file.write_bytes(b"\xe1\xff\x00")
    done = CliRunner().invoke(build(), ["token", "create", "--file", str(file)])
    assert done.exit_code == 2 and "cannot be read as text in UTF-8" in done.stderr


# ---- `fairlead token revoke` on the real API server ----


@pytest.mark.kube
def test_tokens_are_revoked(tokens: Cluster) -> None:
    texts = [run(tokens, "create", "--node", "shop-6").stdout.splitlines()[0] for _ in range(2)]
    ids = [join_token.parse(text).id for text in texts]
    done = run(tokens, "revoke", texts[0], ids[1])
    assert done.stdout == f"jointoken/{ids[0]} revoked\njointoken/{ids[1]} revoked\n"
    done = run(tokens, "revoke", ids[0])
    assert done.exit_code == 1 and "does not exist" in done.stdout


def test_an_id_that_is_none_is_wrong_use() -> None:
    done = CliRunner().invoke(build(), ["token", "revoke", "shop-17"])
    assert done.exit_code == 2 and "the id of a token is ten letters and digits" in done.stderr


# ---- A cluster that knows join tokens, for the commands of `fairlead token` ----


@pytest.fixture(scope="module")
def tokens(cluster: Cluster) -> Iterator[Cluster]:
    """A cluster that knows join tokens, and a hub that introduces itself."""
    cluster.apply(CRDS)
    cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")
    with introducing(cluster, [PIN], URL):
        yield cluster
    for path in (join_tokens.PATH, "api/v1/nodes"):
        cluster.kubectl("delete", "--raw", f"/{path}")
