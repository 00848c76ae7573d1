"""Devices that join, in a seeded world: the real service of two hubs at a time, where everything else fails.

Each write is done, lost, or done with its answer lost; hubs are killed at any step and new ones start; watches lag;
answers to devices are lost, and they ask again.  In worlds with one token both hubs believe that they hold the Lease;
in
worlds with several, the Lease stops the writes of a hub that lost it, as in reality.

Laws: 1 a token admits no more than it may, and each device once; 2 no certificate without a use that was written
before; 3 what one device gets for one use is the same to the byte; 4 one name is one device: of several that were
admitted, all but one are revoked; 5 when the faults end, each device has its certificate or a reason that is final,
and a token that could admit one has.
"""

from __future__ import annotations

import asyncio
import functools
import secrets
import tempfile
from collections import deque
from pathlib import Path
from random import Random
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from tests.sim.laws import LawBroken
from tests.support.joining import join_client, join_cluster, pki
from tests.support.joining.join_cluster import NOW, JoinCluster, JoiningHub

from fairlead_hub.identity import revocation
from fairlead_hub.identity.refusal import IdentityRefused
from fairlead_hub.identity.signer import SignedCertificate
from fairlead_hub.wall_clock import WallClock
from fairlead_wire.identity import join_token
from fairlead_wire.identity.join_token import JoinToken

ATTEMPTS = 40
"""Of one device."""
CALM_AFTER = 12
"""How many attempts all devices make together before faults end."""
DEPOSED = IdentityRefused("signer_unavailable", "another hub holds the Lease", retry_after=1.0)


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Removed when the process ends."""
    return tempfile.TemporaryDirectory(prefix="fairlead-join-world-")


@functools.cache
def _authority() -> pki.Authority:
    return join_cluster.authority_of(Path(_folder().name))


@functools.cache
def _keys() -> list[Any]:
    return [ec.generate_private_key(ec.SECP256R1()) for _ in range(5)]


class _Device:
    def __init__(self, number: int, token: JoinToken, node: str) -> None:
        self.key, self.token, self.node = _keys()[number], token, node
        self.issued: list[SignedCertificate] = []
        self.outcome = ""
        """Code of a final refusal, or ``issued``."""


class _Hub:
    """One hub, its watch that lags, and what it is doing."""

    def __init__(self, world: JoinWorld) -> None:
        self.world, self.alive = world, True
        self.tasks: set[asyncio.Task[SignedCertificate]] = set()
        self._behind: deque[dict[str, Any]] = deque()
        self.service = JoiningHub(
            world.cluster, _authority(), step=self._step, before_signing=self._refusal, delivers=False
        )
        world.cluster.watchers.append(self._behind.append)

    def catch_up(self) -> bool:
        """Its watch delivers one change, if there is one."""
        if self._behind:
            self.service.deliver(self._behind.popleft())
        return bool(self._behind)

    def kill(self) -> None:
        self.alive = False
        for task in self.tasks:
            task.cancel()

    def _refusal(self) -> IdentityRefused | None:
        return DEPOSED if self.world.has_lease and self.world.leader is not self else None

    async def _step(self, at: str, path: str) -> None:
        world = self.world
        for _ in range(world.random.randrange(3)):
            await asyncio.sleep(0)
        world.turn()
        if at == "asked" and world.has_lease and world.leader is not self:
            join_cluster.lost()
        if world.is_calm:
            return
        chance = world.random.random()
        if chance < 0.12:
            join_cluster.lost()
        if chance < 0.22:
            self.kill()
            raise asyncio.CancelledError


class JoinWorld:
    """``checks_versions`` False is the planted mistake that the laws must notice."""

    def __init__(self, seed: int, *, checks_versions: bool = True) -> None:
        self.seed, self.random = seed, Random(seed)
        self.cluster = JoinCluster(checks_versions=checks_versions)
        self.wall, self.attempts = NOW, 0
        count = self.random.choice((1, 1, 2, 3))
        self.has_lease = count > 1
        self.tokens = [self._token() for _ in range(count)]
        self.devices = [self._device(number) for number in range(self.random.randrange(2, 6))]
        self.hubs: list[_Hub] = []
        self.leader: _Hub

    def run(self) -> None:
        asyncio.run(self._run())
        for device in self.devices:
            self._check_device(device)
        for token, spec in self.tokens:
            self._check_token(token, spec)
        self._check_names()

    # ---- what there is ---------------------------------------------------------------------------

    def _token(self) -> tuple[JoinToken, dict[str, Any]]:
        token = join_token.make(secrets.token_bytes, ["0" * 64])
        if self.random.random() < 0.5:
            spec: dict[str, Any] = {"node": "shop-1", "replace": self.random.random() < 0.5}
        else:
            spec = {"pattern": "shop-*", "uses": self.random.randrange(1, 4)}
        self.cluster.put(join_client.join_token_object(token, **spec))
        return token, spec

    def _device(self, number: int) -> _Device:
        token, spec = self.random.choice(self.tokens)
        return _Device(number, token, spec.get("node") or f"shop-{self.random.randrange(1, 4)}")

    @property
    def is_calm(self) -> bool:
        return self.attempts > CALM_AFTER

    def turn(self) -> None:
        """Something else happens meanwhile: a watch catches up, a hub starts, the Lease is handed over."""
        self.hubs = [hub for hub in self.hubs if hub.alive]
        while len(self.hubs) < 2:
            self.hubs.append(_Hub(self))
        if not self.leader.alive or (not self.is_calm and self.random.random() < 0.1):
            self._hand_over()
        for hub in self.hubs:
            for _ in range(9 if self.is_calm else self.random.randrange(3)):
                hub.catch_up()
            hub.service.wall = self.wall

    def _hand_over(self) -> None:
        """A hub that lost the Lease never gets it back, and ends sooner or later."""
        if self.has_lease:
            self.hubs = [*self.hubs[-1:], _Hub(self)]
            self.leader = self.hubs[-1]
            while self.leader.catch_up():
                pass  # it lists when it has taken the Lease
        else:
            self.leader = self.random.choice(self.hubs)

    # ---- what happens ----------------------------------------------------------------------------

    async def _run(self) -> None:
        self.hubs = [_Hub(self) for _ in range(2)]
        self.leader = self.hubs[0]
        running = [asyncio.create_task(self._live(device)) for device in self.devices]
        watching = asyncio.create_task(self._pass())
        await asyncio.gather(*running)
        watching.cancel()

    async def _pass(self) -> None:
        while True:
            await asyncio.sleep(0)
            self.turn()

    async def _live(self, device: _Device) -> None:
        for _ in range(ATTEMPTS):
            self.attempts += 1
            self.wall += self.random.random()
            for _ in range(self.random.randrange(4)):
                await asyncio.sleep(0)
            self.turn()
            hub = self.leader if self.is_calm else self.random.choice(self.hubs)
            task = asyncio.create_task(hub.service.join(device.token, device.node, device.key))
            hub.tasks.add(task)
            try:
                await asyncio.wait([task])
                issued = task.result()
            except IdentityRefused as error:
                if error.retry_after is None:
                    device.outcome = error.code
                    return
            except asyncio.CancelledError:
                continue  # the hub was killed: the device sees a connection that breaks
            else:
                device.issued.append(issued)
                if self.is_calm or self.random.random() < 0.6:
                    device.outcome = "issued"
                    return  # else the answer was lost
            finally:
                hub.tasks.discard(task)

    # ---- laws ------------------------------------------------------------------------------------

    def _uses(self, token: JoinToken) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.cluster.get("jointokens", token.id).get("status", {}).get("uses", [])
        return found

    def _broken(self, law: int, text: str) -> LawBroken:
        return LawBroken(f"law {law} in world {self.seed}: {text}")

    def _check_token(self, token: JoinToken, spec: dict[str, Any]) -> None:
        uses = self._uses(token)
        if len(uses) > spec.get("uses", 1) or len({(use["node"], use["keySHA256"]) for use in uses}) != len(uses):
            raise self._broken(1, f"{len(uses)} uses of {spec.get('uses', 1)}: {uses}")
        asked = [device for device in self.devices if device.token is token]
        taken = {"name_taken", "revoked"}
        if asked and not uses and not all(device.outcome in taken for device in asked):
            raise self._broken(5, f"none was admitted: {[device.outcome for device in asked]}")

    def _check_device(self, device: _Device) -> None:
        if not device.outcome:
            raise self._broken(5, f"{device.node} has neither a certificate nor a reason")
        serials = {use["serial"]: use for use in self._uses(device.token)}
        for issued in device.issued:
            use = serials.get(issued.serial)
            if use is None or use["node"] != device.node:
                raise self._broken(2, f"certificate {issued.serial} of {device.node} without a use")
            if issued.chain != device.issued[0].chain:
                raise self._broken(3, f"{device.node} got {issued.serial} in two forms")

    def _check_names(self) -> None:
        for node in {device.node for device in self.devices}:
            revoked = revocation.read(self.cluster.get("edgenodes", node).get("spec", {}))
            before = WallClock.moment(revoked.before) if revoked is not None else 0
            living = {
                number
                for number, device in enumerate(self.devices)
                for issued in device.issued
                if device.node == node and issued.not_before.timestamp() >= before
            }
            if len(living) > 1:
                raise self._broken(4, f"{node} is {len(living)} devices: {sorted(living)}")
