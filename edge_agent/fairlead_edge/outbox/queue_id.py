"""The name of one log: endpoint and priority (seed: route priority and time-to-live, "Handling priorities").

    iothub_Pri0, iothub_Pri9     a priority from the manifest
    iothub                       the default, lowest priority (2000000000): the bare endpoint id

    iothub_Pri1000000003, iothub_Pri1000000010
                         the live lane of priority 3, and of the default: what is accepted while older messages of the
                         priority still wait, where ``[pump] live_first_share`` wants that.  A log like any other, with
                         a sequence of its own; a version that knows no lanes sends it as a priority of its own

Reading a name back is a guess when an endpoint's own name ends in ``_Pri<digits>``; stores therefore keep
endpoint and priority as they are and use the name only where people or the cloud see it.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from fairlead_wire.validation import route_manifest

DEFAULT_PRIORITY: Final = route_manifest.DEFAULT_PRIORITY
"""What a route without a priority has; lower numbers go first."""

REFUSED_INPUT: Final = "$mqtt/refused"
"""The input of the node whose dead letters are refused input: what was never accepted, and is kept to be looked at."""

HELD_INPUT: Final = "$routes/held"
"""The input of the node where messages wait that only a refused route would take, until the routes change."""

LIVE_LANE: Final = 1_000_000_000
"""Added to a priority, it is that priority's live lane."""
_LIVE_DEFAULT: Final = LIVE_LANE + 10
"""That of the default priority; routes have 0 to 9, or none."""

_NAMED = re.compile(r"(?P<endpoint>.+)_Pri(?P<priority>[0-9]+)", re.ASCII | re.DOTALL)


class QueueId(msgspec.Struct, frozen=True, order=True):
    """One log of one endpoint; queues of an endpoint sort by urgency."""

    endpoint: str
    priority: int = DEFAULT_PRIORITY

    def __str__(self) -> str:
        if self.priority == DEFAULT_PRIORITY:
            return self.endpoint
        return f"{self.endpoint}_Pri{self.priority}"


def parse(text: str) -> QueueId:
    """The queue a name means; text without ``_Pri<digits>`` at its end is an endpoint at the default priority."""
    found = _NAMED.fullmatch(text)
    if found is None:
        return QueueId(text)
    return QueueId(found["endpoint"], int(found["priority"]))


def is_refused_input(endpoint: str) -> bool:
    """Are the dead letters of this endpoint refused input?"""
    return endpoint.endswith(f"/{REFUSED_INPUT}")


def is_held_for_routes(endpoint: str) -> bool:
    """Do messages wait here for a refused route?"""
    return endpoint.endswith(f"/{HELD_INPUT}")


def live_lane(priority: int) -> int:
    """The live lane of a priority; of a lane it is itself."""
    if is_live_lane(priority):
        return priority
    return _LIVE_DEFAULT if priority == DEFAULT_PRIORITY else LIVE_LANE + priority


def is_live_lane(priority: int) -> bool:
    return LIVE_LANE <= priority <= _LIVE_DEFAULT


def base(priority: int) -> int:
    """The priority that a route gave, whichever lane it is."""
    if not is_live_lane(priority):
        return priority
    return DEFAULT_PRIORITY if priority == _LIVE_DEFAULT else priority - LIVE_LANE


def rank(priority: int) -> int:
    """Lower goes first: by the route's priority, its live lane (even) before the rest (odd)."""
    return 2 * base(priority) + (not is_live_lane(priority))
