"""What can go wrong at the edge, named by what comes next."""

from __future__ import annotations

from fairlead_edge.errors import FULL_RETRY_SECONDS, KeyReused, StoreFailed, StoreFull, StoreVersionUnknown
from fairlead_wire.errors import LocalError, Permanent, Temporary


def test_full_store_is_temporary_and_says_when_to_come_back() -> None:
    """Draining takes a while."""
    error = StoreFull("full")
    assert isinstance(error, Temporary) and error.retry_after_seconds == FULL_RETRY_SECONDS


def test_reused_key_is_permanent_and_named() -> None:
    """The same again would fail again."""
    error = KeyReused("k-1")
    assert isinstance(error, Permanent) and error.code == "key_reused" and "k-1" in str(error)


def test_a_disk_that_failed_is_ours_to_end() -> None:
    """Not the caller's to repeat."""
    assert issubclass(StoreFailed, LocalError) and issubclass(StoreVersionUnknown, LocalError)
