"""What the shell knows of a session: a value that names it, and the frames that go out in it."""

from __future__ import annotations

import msgspec

from fairlead_wire import message

Frame = tuple[message.FromHub, bytes]
"""Header and content, not encoded yet."""


class SessionRef(msgspec.Struct, frozen=True, kw_only=True, eq=False, gc=False):
    """One open session, for whoever is outside the core.  Compared by identity; it says nothing that changes."""

    node: str
    number: int
    """Counts the sessions of this process."""
    agent: str
    """The node's version, in its own words."""
    takes_inputs: bool
    """The agent knows messages for modules."""
