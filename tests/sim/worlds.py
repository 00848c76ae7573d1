"""The kinds of worlds; each is played from one seed and raises if a law was broken."""

from __future__ import annotations

from collections.abc import Callable

from tests.sim.fence_world import FenceWorld
from tests.sim.join_world import JoinWorld
from tests.sim.messaging_world import MessagingWorld
from tests.sim.push_world import PushWorld
from tests.sim.up_world import UpWorld
from tests.sim.world import World

WORLDS: dict[str, Callable[[int], None]] = {
    "down": lambda seed: World(seed).run(),
    "fence": lambda seed: FenceWorld(seed).run(),
    "join": lambda seed: JoinWorld(seed).run(),
    "messaging": lambda seed: MessagingWorld(seed).run(),
    "push": lambda seed: PushWorld(seed).run(),
    "up": lambda seed: UpWorld(seed).run(),
    "plans": lambda seed: UpWorld(seed, plans=True).run(),
    "books": lambda seed: UpWorld(
        seed, max_bytes=60_000, disasters=frozenset[str]() if seed % 2 else frozenset({"messaging", "hub", "cut"})
    ).run(),
}
