"""What the shell knows of a session: a value that identifies it, and the frames that are sent in it."""

from __future__ import annotations

import msgspec

from fairlead_wire import message

Frame = tuple[message.FromHub, bytes]
"""Header and content, not encoded yet."""


class SessionRef(msgspec.Struct, frozen=True, kw_only=True, eq=False, gc=False):
    """One open session, for code outside the core.  Compared by identity; its fields never change."""

    node: str
    number: int
    """Number of the session in this process."""
    agent: str
    """The agent's version, as reported."""
    takes_inputs: bool
    """Whether the agent supports messages for modules."""
