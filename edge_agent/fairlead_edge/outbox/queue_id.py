"""The name of one log: endpoint and priority (seed: route priority and time-to-live, "Handling priorities").

    iothub_Pri0, iothub_Pri9     a priority from the manifest
    iothub                       the default, lowest priority (2000000000): the bare endpoint id

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
