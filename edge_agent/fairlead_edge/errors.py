"""The errors of the edge agent; each class tells the caller what can be done next."""

from __future__ import annotations

from typing import Final

from fairlead_wire.errors import FairleadError, LocalError, Permanent, Temporary

MOVING_RETRY_SECONDS: Final = 5.0
FULL_RETRY_SECONDS: Final = 30.0
"""How long a producer should wait when the store is full: sending or expiry takes a while."""


class StoreFull(Temporary):
    """The disk is full or the store's own limit is reached.  Nothing was changed; retry later."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retry_after_seconds=FULL_RETRY_SECONDS)


class Moving(Temporary):
    """The node is moving to another hub and accepts messages again soon, or it is being taken out of service."""

    def __init__(self, reason: str = "the node is moving to another hub") -> None:
        super().__init__(reason, retry_after_seconds=MOVING_RETRY_SECONDS)


class OutOfService(FairleadError):
    """The node has left its hub.  ``now``: it left just now, on request, so this is a success and not a failure."""

    def __init__(self, message: str, *, now: bool) -> None:
        super().__init__(message)
        self.now = now


class StoreUnusable(FairleadError):
    """The store cannot be opened; the text names the file and the remedy.  Programs exit with 1."""


class NotPermitted(StoreUnusable):
    """A file of the agent belongs to another user; the text names file, owner and remedy.  Programs exit with 2."""

    def __init__(self, message: str, *, path: str) -> None:
        super().__init__(message)
        self.path = path


class StoreFailed(LocalError):
    """The disk failed a write or a flush; this process must not use the store any more."""


class StoreDamaged(StoreFailed):
    """The file was changed by the disk; reopening it salvages what can still be read."""


class StoreVersionUnknown(LocalError):
    """Another version of the program wrote this store; run that version, or use another folder."""


class NotOurs(LocalError):
    """The store holds messages of another node; sent under this node's name, they could be in their topics twice."""

    def __init__(self, owner: str, node: str, held: int) -> None:
        super().__init__(
            f"holds {held} undelivered messages of node {owner!r}, but node is {node!r}: correct node in the settings"
            f" if it is mistyped, or start the agent as {owner!r} to deliver them; otherwise use another data_dir"
        )


class KeyReused(Permanent):
    """This Idempotency-Key was used for a different request; use a new key for a new request."""

    def __init__(self, key: str) -> None:
        super().__init__(f"Idempotency-Key {key!r} was used before with another request", code="key_reused")


class LinkDown(Temporary):
    """No session is open, or it ended before the hub answered; retry in the next session."""
