"""The API server as joining sees it, in memory: JoinTokens and EdgeNodes with versions; answers can be lost.

cluster = JoinCluster();  cluster.put(join_client.join_token_object(token, node="edge-1"))
hub = JoiningHub(cluster, folder)           one hub's service; several may use a cluster
issued = await hub.join(token, "edge-1", key)
"""

from __future__ import annotations

import asyncio
import copy
import datetime
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from tests.support.joining import pki

from fairlead_hub.identity import revocation
from fairlead_hub.identity.join_tokens import JoinTokens
from fairlead_hub.identity.joining import Admitted
from fairlead_hub.identity.refusal import IdentityRefused
from fairlead_hub.identity.revocation import KnownIdentity
from fairlead_hub.identity.signer import SignedCertificate
from fairlead_hub.io.cluster.api_error import ApiRefused, ApiUnavailable
from fairlead_hub.io.identity.file_signer import FileSigner
from fairlead_hub.io.identity.issuing import Issuing
from fairlead_hub.io.identity.join_service import JoinService
from fairlead_hub.io.identity.join_token_watch import JoinTokenWatch
from fairlead_hub.wall_clock import WallClock
from fairlead_wire import message
from fairlead_wire.identity.join_token import JoinToken

NOW = 1_900_000_000.0
Step = Callable[[str, str], Awaitable[None] | None]


def merged(document: Any, change: Any) -> Any:
    """RFC 7386."""
    if not isinstance(change, dict):
        return change
    found = dict(document) if isinstance(document, dict) else {}
    for key, value in change.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = merged(found.get(key), value)
    return found


class JoinCluster:
    """Accepts writes as the API server does; ``watchers`` get each object that changed.

    ``checks_versions`` False: a planted mistake, any version may be overwritten.  ``leaves_out``: fields of a status
    that its definition does not have.
    """

    def __init__(self, *, checks_versions: bool = True, leaves_out: Sequence[str] = ()) -> None:
        self._checks_versions = checks_versions
        self.leaves_out = leaves_out
        self.objects: dict[str, dict[str, Any]] = {}
        self.watchers: list[Callable[[dict[str, Any]], None]] = []
        self.writes: list[tuple[str, str]] = []
        self._version = 0

    def put(self, document: dict[str, Any]) -> None:
        """Apply an object as a user would."""
        plural = {"JoinToken": "jointokens", "EdgeNode": "edgenodes"}[document["kind"]]
        self._store(f"apis/fairlead.dev/v1alpha1/{plural}/{document['metadata']['name']}", copy.deepcopy(document))

    def get(self, plural: str, name: str) -> dict[str, Any]:
        return self.objects.get(f"apis/fairlead.dev/v1alpha1/{plural}/{name}", {})

    def write(self, method: str, path: str, body: Any) -> bytes:
        self.writes.append((method, path))
        path = path.removesuffix("/status")
        if method == "POST":
            path = f"{path}/{body['metadata']['name']}"
            if path in self.objects:
                raise ApiRefused(409, "it exists")
            return self._store(path, copy.deepcopy(body))
        there = self.objects.get(path)
        if there is None:
            raise ApiRefused(404, "there is none")
        expected = body.get("metadata", {}).get("resourceVersion")
        if self._checks_versions and expected is not None and expected != there["metadata"]["resourceVersion"]:
            raise ApiRefused(409, "the object has been modified")
        written = merged(there, body)
        for field in self.leaves_out:
            written.get("status", {}).pop(field, None)
        return msgspec.json.encode(there) if written == there else self._store(path, written)

    def _store(self, path: str, document: dict[str, Any]) -> bytes:
        self._version += 1
        document["metadata"]["resourceVersion"] = str(self._version)
        self.objects[path] = document
        for watcher in self.watchers:
            watcher(copy.deepcopy(document))
        return msgspec.json.encode(document)


class Api:
    """Replaces ``Kube`` for a hub.  ``step`` is called at each step of a write ("asked", "done") and may wait."""

    def __init__(self, cluster: JoinCluster, step: Step = lambda step, path: None) -> None:
        self._cluster, self._step = cluster, step

    async def request(self, method: str, path: str, body: Any = None, **_: Any) -> bytes:
        await self._at("asked", path)
        answer = self._cluster.write(method, path, body)
        await self._at("done", path)
        return answer

    async def _at(self, step: str, path: str) -> None:
        await asyncio.sleep(0)  # others may come in between
        waits = self._step(step, path)
        if waits is not None:
            await waits


def authority_of(folder: Path) -> pki.Authority:
    """An authority that signs at ``NOW``."""
    return pki.Authority(folder, "edge", valid=datetime.timedelta(days=10_000))


def lost(*_: Any) -> None:
    """A step that loses the request, or the answer."""
    raise ApiUnavailable("the API server is away")


class JoiningHub:
    """One hub's service, with a clock that stands still."""

    def __init__(
        self,
        cluster: JoinCluster,
        authority: pki.Authority | Path,
        *,
        step: Step = lambda step, path: None,
        before_signing: Callable[[], IdentityRefused | None] = lambda: None,
        node_uids: dict[str, str] | None = None,
        delivers: bool = True,
    ) -> None:
        """``delivers`` False: its watch reports nothing until ``catch_up``."""
        self.cluster = cluster
        self.wall = NOW
        self.joined: list[tuple[Admitted, SignedCertificate]] = []
        self.refused: list[tuple[str, str]] = []
        self.known = KnownIdentity()
        self.node_uids = node_uids or {}
        api: Any = Api(cluster, step)
        self.tokens = JoinTokens()
        self.watch = JoinTokenWatch(api, self.tokens, seconds_left=lambda: 10.0)
        if isinstance(authority, Path):
            authority = authority_of(authority)
        self.signer = FileSigner(authority.certificate, authority.key)
        issuing = Issuing(self.signer, installation="test", days=1, wall=lambda: self.wall, refusal=before_signing)
        self.service = JoinService(
            api,
            self.watch,
            issuing,
            known=self._known,
            clock=lambda: self.wall,
            seconds_left=lambda: 10.0,
            joined=lambda admitted, issued, peer: self.joined.append((admitted, issued)),
            refused=lambda error, node, token, peer: self.refused.append((error.code, node)),
        )
        if delivers:
            cluster.watchers.append(self.deliver)
        self.catch_up()

    def deliver(self, document: dict[str, Any]) -> None:
        if document["kind"] == "JoinToken":
            self.watch.on_object(msgspec.Raw(msgspec.json.encode(document)))

    def catch_up(self) -> None:
        """Deliver the list to its watch."""
        documents = [each for each in self.cluster.objects.values() if each["kind"] == "JoinToken"]
        for each in documents:
            self.deliver(each)
        self.watch.on_listed({each["metadata"]["name"] for each in documents}, "1")

    def _known(self, node: str) -> KnownIdentity:
        revoked = revocation.read(self.cluster.get("edgenodes", node).get("spec", {}))
        before = WallClock.moment(revoked.before) if revoked is not None else 0
        uid = self.node_uids.get(node, "")
        return msgspec.structs.replace(self.known, revoked_before=before, node_uid=uid)

    async def join(self, token: JoinToken, node: str, key: Any, **request: Any) -> SignedCertificate:
        """One attempt.  Raises ``IdentityRefused``."""
        header = message.Join(token_id=token.id, secret=token.secret, node=node, agent="test/0")
        return await self.service.join(header, pki.signing_request(key, name=node, **request), "192.0.2.1:1")
