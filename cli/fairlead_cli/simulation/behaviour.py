"""How a simulated node may behave; a module of its own, so that naming it needs no network package."""

from __future__ import annotations

from typing import Literal, get_args

Behaviour = Literal["well", "slow", "never-ack", "nack", "lose-acks", "flapping"]
BEHAVIOURS: tuple[str, ...] = get_args(Behaviour)
