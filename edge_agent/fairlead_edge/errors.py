"""The errors of the edge agent, named by what the caller can do next."""

from __future__ import annotations

from typing import Final

from fairlead_wire.errors import FairleadError, LocalError, Permanent, Temporary

MOVING_RETRY_SECONDS: Final = 5.0
FULL_RETRY_SECONDS: Final = 30.0
"""How long a producer should wait when the store is full: sending or expiry takes a while."""


class StoreFull(Temporary):
    """The disk or the store's own limit is full and nothing was changed; try again when something was drained."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retry_after_seconds=FULL_RETRY_SECONDS)


class Moving(Temporary):
    """The node is moving to another hub and accepts messages again in a moment, or it is being taken out of service."""

    def __init__(self, reason: str = "the node moves to another hub") -> None:
        super().__init__(reason, retry_after_seconds=MOVING_RETRY_SECONDS)


class OutOfService(FairleadError):
    """The node has left its hub.  ``now``: at this moment, so that the program did what was asked of it."""

    def __init__(self, message: str, *, now: bool) -> None:
        super().__init__(message)
        self.now = now


class StoreUnusable(FairleadError):
    """The store cannot be opened as it is; the text says which file and what to do.  Programs exit 1."""


class NotPermitted(StoreUnusable):
    """A file of the agent belongs to another user; the text names it, its owner and the command.  Programs exit 2."""


class StoreFailed(LocalError):
    """The disk failed a write or a flush; this process must not go on with this store."""


class StoreDamaged(StoreFailed):
    """The file is not what was written to it; reopening it saves what can still be read."""


class StoreVersionUnknown(LocalError):
    """Another version of the program wrote this store; run that version, or give this one another folder."""


class NotOurs(LocalError):
    """The store holds what another node accepted: sent under this name it would be in its topics twice."""

    def __init__(self, owner: str, node: str, held: int) -> None:
        super().__init__(
            f"holds {held} messages that node {owner!r} accepted, and this is {node!r}: "
            f"start it once more as {owner!r} to deliver them, use another data_dir, or remove the file"
        )


class KeyReused(Permanent):
    """This Idempotency-Key came before with another request; use a new key for a new request."""

    def __init__(self, key: str) -> None:
        super().__init__(f"Idempotency-Key {key!r} was used before with another request", code="key_reused")


class LinkDown(Temporary):
    """No session is open, or it ended before the hub answered: offer the same again in the next one."""
