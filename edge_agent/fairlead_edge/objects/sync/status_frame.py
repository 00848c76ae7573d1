"""The status of the agent as it goes to the hub: bounded, so that it never ends the session by its size."""

from __future__ import annotations

from typing import Final

import msgspec

from fairlead_wire import message

BYTES_MAX: Final = 2 * 1024 * 1024
"""A longer status goes without its routes: thousands of bad routes explain themselves at length."""


def encode(status: message.EdgeStatus) -> bytes:
    """The content of a ``message.Status`` frame."""
    content = msgspec.json.encode(status)
    if len(content) > BYTES_MAX:
        content = msgspec.json.encode(msgspec.structs.replace(status, routes={}))
    return content
