"""One admission: what is written before what, and what happens when a step fails."""

import asyncio
import datetime
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from tests.support.edges.upstream import until
from tests.support.joining import join_client, join_cluster
from tests.support.joining.join_cluster import NOW, JoinCluster, JoiningHub

from fairlead_hub.identity import joining
from fairlead_hub.identity.refusal import IdentityRefused
from fairlead_hub.identity.revocation import KnownIdentity
from fairlead_hub.identity.signer import CertificateTemplate, SignedCertificate
from fairlead_wire.identity import join_token
from fairlead_wire.identity.join_token import JoinToken

KEY, OTHER = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())


def _token(cluster: JoinCluster, **spec: Any) -> JoinToken:
    token = join_token.make(secrets.token_bytes, ["0" * 64])
    cluster.put(join_client.join_token_object(token, **spec))
    return token


def _made(folder: Path, **spec: Any) -> tuple[JoinCluster, JoinToken, JoiningHub]:
    """A hub, and a token for edge-1 unless it says otherwise."""
    cluster = JoinCluster()
    return cluster, _token(cluster, **(spec or {"node": "edge-1"})), JoiningHub(cluster, folder)


async def _code(hub: JoiningHub, token: JoinToken, node: str, key: Any = KEY, **request: Any) -> str:
    with pytest.raises(IdentityRefused) as caught:
        await hub.join(token, node, key, **request)
    assert hub.refused[-1][0] == caught.value.code
    return caught.value.code


def _uses(cluster: JoinCluster, token: JoinToken) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cluster.get("jointokens", token.id).get("status", {}).get("uses", [])
    return found


async def test_the_use_is_written_and_then_the_certificate_made(tmp_path: Path):
    """What stands there is what was signed; the same request gets the same bytes, and writes nothing."""
    cluster, token, hub = _made(tmp_path)
    issued = await hub.join(token, "edge-1", KEY)
    [use] = _uses(cluster, token)
    [leaf] = x509.load_pem_x509_certificates(issued.chain)
    assert (use["node"], int(use["serial"], 16)) == ("edge-1", leaf.serial_number)
    writes = len(cluster.writes)
    again = await hub.join(token, "", KEY)
    assert again == issued and len(cluster.writes) == writes
    assert [admitted.is_repeat for admitted, _ in hub.joined] == [False, True]
    assert await _code(hub, token, "edge-1", OTHER) == "token_used"


async def test_refusals_write_nothing(tmp_path: Path):
    """The token is as good as before."""
    cluster, token, hub = _made(tmp_path)
    wrong = msgspec.structs.replace(token, secret="a" * 26)
    unknown = msgspec.structs.replace(token, id="b" * 10)
    assert await _code(hub, wrong, "edge-1") == await _code(hub, unknown, "edge-1") == "token_unknown"
    assert await _code(hub, token, "edge-2") == "token_node"
    assert await _code(hub, token, "edge-1", extensions=[(x509.BasicConstraints(True, None), True)]) == "csr_ca"
    hub.known = KnownIdentity(unknown="not yet")
    assert await _code(hub, token, "edge-1") == "starting"
    assert [node for _, node in hub.refused] == ["", "", "", "edge-1", "edge-1"]
    assert cluster.writes == []
    hub.known = KnownIdentity()
    assert await hub.join(token, "edge-1", KEY)


async def test_guesses_are_slowed_and_lock_their_token(tmp_path: Path):
    """Without one question to the API server; then the right secret has to wait, too."""
    cluster, token, hub = _made(tmp_path)
    codes = []
    for _ in range(2 * joining.FAILURES_MAX):
        guess = msgspec.structs.replace(token, secret=join_token.make(secrets.token_bytes, []).secret)
        codes.append(await _code(hub, guess, "edge-1"))
        hub.wall += 0.11
    assert codes[: joining.FAILURES_MAX] == ["token_unknown"] * joining.FAILURES_MAX
    assert set(codes[joining.FAILURES_MAX :]) == {"too_many"}
    assert await _code(hub, token, "edge-1") == "too_many"
    hub.wall += joining.LOCKED_SECONDS
    assert cluster.writes == [] and await hub.join(token, "edge-1", KEY)
    others = [await _code(hub, msgspec.structs.replace(token, id="b" * 10), "x") for _ in range(30)]
    assert others.count("too_many") >= 10


async def test_made_up_ids_do_not_keep_a_device_out(tmp_path: Path):
    """They have a share of their own."""
    _, token, hub = _made(tmp_path)
    made_up = msgspec.structs.replace(token, id="b" * 10)
    codes = [await _code(hub, made_up, "edge-1") for _ in range(joining.ATTEMPTS_AT_ONCE + 1)]
    assert codes[-1] == "too_many" and await hub.join(token, "edge-1", KEY)


async def test_a_slow_signer_holds_up_one_device_and_not_all_of_its_token(tmp_path: Path):
    """cert-manager may wait for a person's approval."""
    cluster, token, hub = _made(tmp_path, pattern="edge-*", uses=2)
    approved, sign = asyncio.Event(), hub.signer.sign

    async def slow(template: CertificateTemplate) -> SignedCertificate:
        if template.names.node == "edge-1":
            await approved.wait()
        return await sign(template)

    hub.signer.sign = slow  # type: ignore[method-assign]
    waiting = asyncio.create_task(hub.join(token, "edge-1", KEY))
    await until(lambda: _uses(cluster, token))
    async with asyncio.timeout(60):
        assert (await hub.join(token, "edge-2", OTHER)).node == "edge-2"
    assert not waiting.done()
    approved.set()
    assert (await waiting).node == "edge-1"


async def test_of_two_hubs_one_admits(tmp_path: Path):
    """Both judge the same version; one write gets through, the other hub reads what stands there."""
    authority = join_cluster.authority_of(tmp_path)
    for _ in range(20):
        cluster = JoinCluster()
        token = _token(cluster, node="edge-1")
        hubs = [JoiningHub(cluster, authority) for _ in range(2)]
        tries = [hub.join(token, "edge-1", key) for hub, key in zip(hubs, (KEY, OTHER), strict=True)]
        answers = await asyncio.gather(*tries, return_exceptions=True)
        codes = [each.code for each in answers if isinstance(each, IdentityRefused)]
        assert codes == ["token_used"] and len(_uses(cluster, token)) == 1


async def test_the_same_device_at_two_hubs_gets_one_certificate(tmp_path: Path):
    """It lost patience with the first."""
    cluster, authority = JoinCluster(), join_cluster.authority_of(tmp_path)
    token = _token(cluster, node="edge-1")
    hubs = [JoiningHub(cluster, authority) for _ in range(2)]
    first, second = await asyncio.gather(*(hub.join(token, "edge-1", KEY) for hub in hubs))
    assert first == second and len(_uses(cluster, token)) == 1


async def test_many_devices_by_one_token(tmp_path: Path):
    """Each once, and no more than it admits; a hub holds them apart by itself."""
    cluster, token, hub = _made(tmp_path, pattern="shop-*", uses=5)
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(7)]
    tries = [hub.join(token, f"shop-{number}", key) for number, key in enumerate(keys)]
    answers = await asyncio.gather(*tries, return_exceptions=True)
    assert sum(isinstance(each, IdentityRefused) and each.code == "token_used" for each in answers) == 2
    assert sorted(use["node"] for use in _uses(cluster, token)) == [f"shop-{number}" for number in range(5)]
    assert len(cluster.writes) == 5
    assert sorted(cluster.get("jointokens", token.id)["status"]["usedBy"].split(", ")) == [
        f"shop-{number}" for number in range(5)
    ]


async def test_one_key_is_one_node(tmp_path: Path):
    """Also by another token."""
    cluster = JoinCluster()
    first, second = _token(cluster, node="edge-1"), _token(cluster, node="edge-2")
    hub = JoiningHub(cluster, tmp_path)
    await hub.join(first, "edge-1", KEY)
    assert await _code(hub, second, "edge-2") == "csr_key_reused" and not _uses(cluster, second)


async def test_a_replacement_revokes_before_it_signs(tmp_path: Path):
    """The old identity is over when the new one is made; where there is no EdgeNode one is."""
    cluster = JoinCluster()
    token, second = (_token(cluster, node="edge-1", replace=True) for _ in range(2))
    hub = JoiningHub(cluster, tmp_path)
    issued = await hub.join(token, "edge-1", KEY)
    assert [path.rpartition("/")[2] for _, path in cluster.writes] == ["status", "edge-1", "edgenodes"]
    before = cluster.get("edgenodes", "edge-1")["spec"]["revoked"]["before"]
    assert datetime.datetime.fromisoformat(before) == issued.not_before
    newer = await hub.join(second, "edge-1", OTHER)
    assert newer.not_before == issued.not_before + datetime.timedelta(seconds=1)
    assert await _code(hub, token, "edge-1") == "revoked"


def _losing(step: str, path: str, times: int = 1) -> Callable[[str, str], None]:
    left = [times]

    def lose(at: str, where: str) -> None:
        if at == step and where.endswith(path) and left[0]:
            left[0] -= 1
            join_cluster.lost()

    return lose


@pytest.mark.parametrize("step", ["asked", "done"])
@pytest.mark.parametrize("path", ["/status", "/edge-1"])
async def test_a_lost_request_or_answer_costs_nothing(tmp_path: Path, step: str, path: str):
    """The device asks again, and gets the one certificate; the old identity is revoked exactly once."""
    cluster = JoinCluster()
    cluster.put({"kind": "EdgeNode", "metadata": {"name": "edge-1"}})
    token = _token(cluster, node="edge-1", replace=True)
    hub = JoiningHub(cluster, tmp_path, step=_losing(step, path))
    assert await _code(hub, token, "edge-1") == "signer_unavailable"
    issued = await hub.join(token, "edge-1", KEY)
    [use] = _uses(cluster, token)
    assert use["serial"] == issued.serial
    before = cluster.get("edgenodes", "edge-1")["spec"]["revoked"]["before"]
    assert datetime.datetime.fromisoformat(before) == issued.not_before


async def test_without_the_api_server_no_device_joins(tmp_path: Path):
    """Nothing that is not written down is signed."""
    cluster = JoinCluster()
    token = _token(cluster, node="edge-1")
    hub = JoiningHub(cluster, tmp_path, step=_losing("asked", "", times=1000))
    for _ in range(3):
        assert await _code(hub, token, "edge-1") == "signer_unavailable"
    assert not hub.joined and not _uses(cluster, token)


async def test_a_hub_that_may_have_been_replaced_does_not_sign(tmp_path: Path):
    """Neither before it writes nor after."""
    cluster = JoinCluster()
    token = _token(cluster, node="edge-1")
    deposed = IdentityRefused("signer_unavailable", "may have been replaced", retry_after=2)
    answers = [None, deposed]
    hub = JoiningHub(cluster, tmp_path, before_signing=lambda: answers.pop(0))
    assert await _code(hub, token, "edge-1") == "signer_unavailable" and not hub.joined
    successor = JoiningHub(cluster, tmp_path / "ca", node_uids={})
    assert (await successor.join(token, "edge-1", KEY)).serial == _uses(cluster, token)[0]["serial"]


async def test_a_hub_that_sees_nothing_any_more_admits_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Its write meets another version, and its watch does not bring it."""
    monkeypatch.setattr("fairlead_hub.io.identity.join_token_watch.CHANGE_SECONDS", 0.01)
    cluster = JoinCluster()
    token = _token(cluster, node="edge-1")
    blind = JoiningHub(cluster, tmp_path, delivers=False)
    other = JoiningHub(cluster, tmp_path / "other")
    await other.join(token, "edge-1", OTHER)
    assert await _code(blind, token, "edge-1") == "signer_unavailable"
    blind.catch_up()
    assert await _code(blind, token, "edge-1") == "token_used" and not blind.joined


async def test_a_token_that_was_deleted_meanwhile(tmp_path: Path):
    """It admits none from then on."""
    cluster, token, hub = _made(tmp_path)
    del cluster.objects[f"apis/fairlead.dev/v1alpha1/jointokens/{token.id}"]
    assert await _code(hub, token, "edge-1") == "token_unknown"
    hub.tokens.remove(token.id)
    assert await _code(hub, token, "edge-1") == "token_unknown"


async def test_before_the_tokens_are_listed_a_device_waits(tmp_path: Path):
    """Unknown is not the same as not read yet."""
    hub = JoiningHub(JoinCluster(), tmp_path)
    hub.tokens.listed = False
    token = join_token.make(secrets.token_bytes, ["0" * 64])
    assert await _code(hub, token, "edge-1") == "starting"
    assert hub.wall == NOW
