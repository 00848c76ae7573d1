"""What is kept of a message that was given to a module and is not done: a restart forgets no lease and no count.

One row a message, in the same file as the message; it goes when the message goes.
"""

from __future__ import annotations

import msgspec


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """The latest time a message was given out.  Times are seconds of the store's clock."""

    offset: int
    id: str
    """The message's own id, by which it is acknowledged."""
    number: int
    """How often it was given out."""
    leased: bool
    """It is in a module's hands until ``until``; otherwise it failed, and is given out again from ``until`` on."""
    until: float
    delay_seconds: float = 0.0
    """The wait before this attempt, for jitter that follows the wait before."""
    waited_seconds: float = 0.0
    """All its waits between attempts, for a policy that limits them."""
