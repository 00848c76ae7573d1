"""Users of this machine by name, for sentences that people read and commands that they copy."""

from __future__ import annotations

import pwd


def name(uid: int) -> str:
    """As in ``chown NAME``; the number of a user without one (of a container's image, or deleted since)."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
