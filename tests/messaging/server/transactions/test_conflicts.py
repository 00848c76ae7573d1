"""Of two transactions that changed a key only one commits, and what that needs is forgotten in time."""

from __future__ import annotations

import pytest

from fairlead_messaging.server.transactions import manager
from fairlead_messaging.server.transactions.manager import DIGEST_BYTES, CommittedKeys, digests


def test_a_key_committed_since_a_transaction_began_is_a_conflict() -> None:
    """Pointers are times: at or after its own."""
    keys = CommittedKeys()
    keys.add(digests(["a"]), 10)
    assert keys.conflict(10, digests(["b", "a"])) and keys.conflict(3, digests(["a"]))
    assert not keys.conflict(11, digests(["a"])) and not keys.conflict(3, digests(["b"])) and not keys.conflict(3, [])


def test_keys_are_kept_while_one_is_open_that_began_before() -> None:
    """Committed again they count as new."""
    keys = CommittedKeys()
    keys.add(digests(["a", "b"]), 10)
    keys.add(digests(["a"]), 20)
    keys.forget(15)
    assert len(keys) == 1 and keys.conflict(20, digests(["a"]))
    keys.forget(21)
    assert len(keys) == 0


def test_beyond_the_limit_the_oldest_are_forgotten_and_conflict_with_everything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A transaction may then be aborted without need, but no two ever commit the same key."""
    monkeypatch.setattr(manager, "COMMITTED_MAX", 2)
    keys = CommittedKeys()
    for at, key in enumerate("abc", 10):
        keys.add(digests([key]), at)
    keys.forget(5)
    assert len(keys) == 2
    assert keys.conflict(10, digests(["z"])) and not keys.conflict(11, digests(["z"])) and not keys.conflict(10, [])


def test_any_text_is_a_key() -> None:
    """Also what no other encoding takes."""
    assert [len(digest) for digest in digests(["", "\ud800", "x" * 2000])] == [DIGEST_BYTES] * 3
