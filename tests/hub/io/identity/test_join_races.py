"""Two hubs that both believe to lead, and a guesser who does not tire: what the API server decides and never sees."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from tests.support.hubs.hub import CRDS, until
from tests.support.joining import join_client, pki
from tests.support.joining.join_cluster import NOW, JoinCluster, JoiningHub
from tests.support.kube.api_front import ApiFront
from tests.support.kube.cluster import Cluster

from fairlead_hub.identity import joining
from fairlead_hub.identity.join_tokens import JoinTokens
from fairlead_hub.identity.refusal import IdentityRefused
from fairlead_hub.identity.revocation import KnownIdentity
from fairlead_hub.identity.signer import SignedCertificate
from fairlead_hub.io.cluster.reflector import Reflector
from fairlead_hub.io.identity import join_token_watch
from fairlead_hub.io.identity.file_signer import FileSigner
from fairlead_hub.io.identity.issuing import Issuing
from fairlead_hub.io.identity.join_service import JoinService
from fairlead_hub.io.identity.join_token_watch import JoinTokenWatch
from fairlead_wire import message
from fairlead_wire.identity import join_token
from fairlead_wire.identity.join_token import JoinToken

pytestmark = pytest.mark.verify
RACES = 200
GUESSES = 100_000


@pytest.fixture
def kube(cluster: Cluster) -> Iterator[Cluster]:
    cluster.apply(CRDS)
    cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")
    yield cluster
    cluster.kubectl("delete", "--raw", f"/{join_token_watch.ROOT}")  # all in one request: kubectl paces single ones


class LeadingHub:
    """The joining of a hub that never learns that another leads: a watch and a client of its own."""

    def __init__(self, front: ApiFront, authority: pki.Authority, clock: Any) -> None:
        client = front.client()
        self.watch = JoinTokenWatch(client, JoinTokens(), seconds_left=lambda: 10.0)
        self._reflector = Reflector(client, join_token_watch.ROOT, self.watch)
        self._moment = 0.0
        issuing = Issuing(
            FileSigner(authority.certificate, authority.key),
            installation="test",
            days=1,
            wall=clock,
            refusal=lambda: None,
        )
        self._service = JoinService(
            client,
            self.watch,
            issuing,
            known=lambda node: KnownIdentity(),
            clock=self._later,
            seconds_left=lambda: 10.0,
            joined=lambda admitted, issued, peer: None,
            refused=lambda error, node, token, peer: None,
        )

    def _later(self) -> float:
        """A second for each question, so that no limit of attempts is met."""
        self._moment += 1.0
        return self._moment

    async def run(self) -> None:
        await self._reflector.run()

    async def join(self, token: JoinToken, node: str) -> SignedCertificate | str:
        """Of a device with a key of its own: the certificate, or the code; asked again where the hub says so."""
        header = message.Join(token_id=token.id, secret=token.secret, node=node, agent="test/0")
        request = pki.signing_request(ec.generate_private_key(ec.SECP256R1()))
        while True:
            try:
                return await self._service.join(header, request, "192.0.2.1:1")
            except IdentityRefused as error:
                if error.code not in ("signer_unavailable", "too_many", "starting"):
                    return error.code


@pytest.fixture
async def hubs(kube: Cluster, tmp_path: Path) -> AsyncIterator[tuple[LeadingHub, LeadingHub]]:
    authority = pki.Authority(tmp_path)
    async with ApiFront(kube) as one, ApiFront(kube) as two:
        made = LeadingHub(one, authority, time.time), LeadingHub(two, authority, time.time)
        tasks = [asyncio.create_task(each.run()) for each in made]
        yield made
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_of_two_hubs_that_race_for_a_token_one_gives_a_certificate(
    kube: Cluster, hubs: tuple[LeadingHub, LeadingHub]
) -> None:
    """Two devices, two keys, one token, two hubs, one moment: one certificate, and one use, which names its serial."""
    tokens = {f"edge-{race}": join_token.make(secrets.token_bytes, ["0" * 64]) for race in range(RACES)}
    objects = [join_client.join_token_object(token, node=node) for node, token in tokens.items()]
    await asyncio.to_thread(kube.apply, objects)
    await until("both hubs know all tokens", lambda: all(len(list(hub.watch.tokens)) == RACES for hub in hubs))
    serials: dict[str, int] = {}
    for node, token in tokens.items():
        answers = await asyncio.gather(*(hub.join(token, node) for hub in hubs))
        [issued] = [each for each in answers if isinstance(each, SignedCertificate)]
        assert [each for each in answers if isinstance(each, str)] == ["token_used"], node
        [leaf] = x509.load_pem_x509_certificates(issued.chain)
        serials[token.id] = leaf.serial_number
    written = kube.get(f"/{join_token_watch.ROOT}")["items"]
    uses = {each["metadata"]["name"]: each["status"]["uses"] for each in written}
    assert {id: [int(use["serial"], 16) for use in found] for id, found in uses.items()} == {
        id: [serial] for id, serial in serials.items()
    }


async def test_guesses_ask_the_api_server_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred thousand, of tokens that exist and of others: no request, one answer, and tables that end."""
    monkeypatch.setattr(joining, "ATTEMPTS_PER_SECOND", 1e9)
    monkeypatch.setattr(joining, "ATTEMPTS_AT_ONCE", GUESSES)
    cluster = JoinCluster()
    token = join_token.make(secrets.token_bytes, ["0" * 64])
    cluster.put(join_client.join_token_object(token, node="edge-1"))
    hub = JoiningHub(cluster, tmp_path)
    codes: dict[str, int] = {}
    for number in range(GUESSES):
        id = token.id if number % 2 else f"{number:010x}".translate(str.maketrans("0189", "wxyz"))
        header = message.Join(token_id=id, secret=f"{number:026d}", node="edge-1", agent="x")
        try:
            await hub.service.join(header, b"", "192.0.2.1:1")
        except IdentityRefused as error:
            codes[error.code] = codes.get(error.code, 0) + 1
    assert codes == {
        "token_unknown": GUESSES // 2 + joining.FAILURES_MAX,
        "too_many": GUESSES // 2 - joining.FAILURES_MAX,
    }
    assert cluster.writes == []
    hub.wall = NOW + joining.LOCKED_SECONDS + 1
    assert await hub.join(token, "edge-1", ec.generate_private_key(ec.SECP256R1()))
