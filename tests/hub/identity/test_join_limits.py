"""How often a join may be tried."""

from fairlead_hub.identity import join_limits
from fairlead_hub.identity.join_limits import JoinLimits


def test_so_many_a_second():
    """More at once than in the long run; who is refused learns when to come again."""
    limits = JoinLimits()
    taken = [limits.take(100.0, is_known=True) for _ in range(join_limits.ATTEMPTS_AT_ONCE + 1)]
    assert taken[:-1] == [0.0] * join_limits.ATTEMPTS_AT_ONCE and 0 < taken[-1] <= 0.1
    assert sum(limits.take(101.0, is_known=True) == 0.0 for _ in range(30)) == 10


def test_made_up_ids_do_not_keep_devices_out():
    """Each kind has its own share, and no more."""
    limits = JoinLimits()
    while not limits.take(1.0, is_known=False):
        pass
    assert limits.take(1.0, is_known=True) == 0.0


def test_a_guessed_token_is_locked_for_a_while():
    """Nineteen wrong secrets and the right one begin the count anew; twenty lock it."""
    limits = JoinLimits()
    for _ in range(join_limits.FAILURES_MAX - 1):
        assert not limits.failed("a", 0.0)
    limits.passed("a")
    assert [limits.failed("a", 0.0) for _ in range(join_limits.FAILURES_MAX)][-1]
    assert limits.locked("a", 1.0) == join_limits.LOCKED_SECONDS - 1 and not limits.locked("b", 1.0)
    assert not limits.locked("a", join_limits.LOCKED_SECONDS)


def test_tables_end_somewhere(monkeypatch):
    """The oldest is forgotten first."""
    monkeypatch.setattr(join_limits, "COUNTED_MAX", 3)
    monkeypatch.setattr(join_limits, "FAILURES_MAX", 2)
    limits = JoinLimits()
    for id in "abcd":
        limits.failed(id, 0.0)
    assert not limits.failed("a", 0.0) and limits.failed("d", 0.0)
    for id in "efgh":
        limits.failed(id, 0.0), limits.failed(id, 0.0)
    assert not limits.locked("d", 0.0) and limits.locked("h", 0.0)
