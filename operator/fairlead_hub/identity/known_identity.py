"""What the hub knows of a name that a device requests."""

from __future__ import annotations

import msgspec


class KnownIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """What the hub knows of a name.  Times are seconds since 1970; 0 and empty mean none."""

    unknown: str = ""
    """Why the name cannot be judged yet."""
    node_uid: str = ""
    """UID of the Node that has this name now."""
    bound_uid: str = ""
    """UID of the Node its newest certificate was used for."""
    issued: int = 0
    expires: int = 0
    revoked_before: int = 0
