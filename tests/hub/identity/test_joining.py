"""Who may have a certificate: every refusal, and what is written down of an admission."""

import datetime
from typing import Any

import msgspec
import pytest

from fairlead_hub.identity import joining
from fairlead_hub.identity.join_tokens import JoinTokenObject, Use
from fairlead_hub.identity.joining import Admitted, JoinLimits
from fairlead_hub.identity.refusal import IdentityRefused
from fairlead_hub.identity.revocation import KnownIdentity
from fairlead_hub.identity.signer import Authority, CheckedRequest, SignerUnavailable
from fairlead_wire.identity import join_token

NOW = 1_900_000_000.5
DAY = 86_400
SECRET = "s" * 26
TOKEN = JoinTokenObject(
    id="abc", version="5", secret_sha256=join_token.hash_of(SECRET), node="edge-1", pattern="", expires=int(NOW) + 3600,
    uses_max=1, replace=False,
)  # fmt: skip
REQUEST = CheckedRequest(der=b"", public_key=b"", key_sha256="mine")
ROOT = Authority(name="edge")


def _token(**changes: Any) -> JoinTokenObject:
    return msgspec.structs.replace(TOKEN, **changes)


def _use(**changes: Any) -> Use:
    found = {
        "node": "edge-1", "key_sha256": "other", "serial": "aa", "time": int(NOW) - DAY,
        "not_before": int(NOW) - DAY - 300, "not_after": int(NOW) + 89 * DAY,
    }  # fmt: skip
    return Use(**{**found, **changes})


def _judge(token: JoinTokenObject = TOKEN, **changes: Any) -> Admitted:
    asked: dict[str, Any] = {
        "known": KnownIdentity(node_uid="u"), "uses": token.uses, "key_owner": "", "now": NOW, "days": 90,
        "authority": ROOT, "serial": lambda: 0x4D,
    }  # fmt: skip
    return joining.judge(token, "edge-1", REQUEST, **{**asked, **changes})


def _code(token: JoinTokenObject = TOKEN, **changes: Any) -> str:
    with pytest.raises(IdentityRefused) as caught:
        _judge(token, **changes)
    return caught.value.code


def test_secrets_are_compared_whether_or_not_there_is_a_token():
    """An unknown id takes the way of a known one."""
    assert joining.check_secret(TOKEN, SECRET)
    assert not joining.check_secret(TOKEN, "t" * 26) and not joining.check_secret(TOKEN, "")
    assert not joining.check_secret(None, SECRET)


def test_the_name_is_the_tokens_or_covered_by_it():
    """An exact token knows it; a pattern has to be told."""
    pattern = _token(node="", pattern="shop-*")
    assert joining.node_of(TOKEN, "") == joining.node_of(TOKEN, "edge-1") == "edge-1"
    assert joining.node_of(pattern, "shop-1") == "shop-1"
    for token, node in ((TOKEN, "edge-2"), (pattern, ""), (pattern, "edge-1"), (pattern, "shop-A"), (pattern, "shop-")):
        with pytest.raises(IdentityRefused) as caught:
            joining.node_of(token, node)
        assert caught.value.code == "token_node"


def test_an_admission_says_what_is_to_be_written_and_signed():
    """Serial number and times are decided here, once."""
    found = _judge()
    assert found == Admitted(
        token=TOKEN,
        use=_use(
            key_sha256="mine", serial="4d", time=int(NOW), not_before=int(NOW) - 300, not_after=int(NOW) + 90 * DAY,
            node_uid="u",
        ),
        is_repeat=False,
        revoke_before=0,
    )  # fmt: skip


def test_time_and_uses_end_a_token():
    """With the remedy."""
    assert _code(_token(expires=int(NOW))) == "token_expired"
    assert _code(_token(uses=(_use(),))) == "token_used"
    assert _code(_token(uses=(_use(node="edge-3"), _use(node="edge-4")), uses_max=2)) == "token_used"


def test_the_same_request_gets_the_same_again_for_a_while():
    """Also when the token's time or uses are over meanwhile: its answer may have been lost."""
    use = _use(key_sha256="mine", time=int(NOW) - 599)
    token = _token(uses=(use,), expires=int(NOW) - 1)
    assert _judge(token) == Admitted(token=token, use=use, is_repeat=True, revoke_before=0)
    late = _token(uses=(_use(key_sha256="mine", time=int(NOW) - 600),))
    assert _code(late) == "token_used"


def test_what_was_revoked_meanwhile_is_not_given_again():
    """A person's word counts from when it was said."""
    use = _use(key_sha256="mine", time=int(NOW) - 5)
    known = KnownIdentity(node_uid="u", revoked_before=use.not_before + 1)
    assert _code(_token(uses=(use,)), known=known) == "revoked"
    for_ever = KnownIdentity(node_uid="u", revoked_before=253_402_300_799)
    assert _code(known=for_ever) == _code(_token(replace=True), known=for_ever) == "revoked"


def test_a_key_of_another_node_is_refused():
    """An image that was cloned with its key on it."""
    assert _code(key_owner="edge-9") == "csr_key_reused"


def test_a_name_in_use_is_taken_until_its_identity_ends():
    """By time, by revocation, with its Node."""
    known = KnownIdentity(node_uid="u", bound_uid="u", issued=int(NOW) - DAY, expires=int(NOW) + DAY)
    change = msgspec.structs.replace
    assert _code(known=known) == "name_taken"
    assert _judge(known=change(known, expires=int(NOW)))
    assert _judge(known=change(known, revoked_before=known.issued + 1)).use.not_before == int(NOW) - 300
    assert _judge(known=change(known, node_uid="another"))
    assert _judge(known=change(known, node_uid=""))


def test_a_revoked_name_is_not_admitted_by_a_pattern():
    """A stolen device may still have the token of its group; a person makes one for this name."""
    revoked = KnownIdentity(node_uid="u", revoked_before=int(NOW) - 10)
    assert _code(_token(node="", pattern="edge-*"), known=revoked) == "name_taken"
    assert _judge(_token(node="", pattern="edge-*"))
    assert _judge(known=revoked)


def test_a_name_that_was_given_and_not_used_yet_is_taken_too():
    """Else a stolen pattern token could claim it before its device comes."""
    other = (_use(),)
    assert _code(uses=other) == "name_taken"
    assert _code(uses=(_use(node_uid="u"),)) == "name_taken"
    assert _judge(uses=(_use(node_uid="of a Node that was deleted"),))
    assert _judge(uses=(_use(not_after=int(NOW)),))
    assert _judge(uses=other, known=KnownIdentity(revoked_before=int(NOW) - 10))
    # A newer one of the name was used, in a life of the Node that is over.
    gone = KnownIdentity(node_uid="new", bound_uid="old", issued=int(NOW) - 60, expires=int(NOW) + DAY)
    assert _judge(uses=other, known=gone)


def test_a_replacement_revokes_what_is_older_and_is_not_older_itself():
    """Also twice within a second, and when the revocation was not written the first time."""
    token = _token(replace=True)
    living = KnownIdentity(node_uid="u", bound_uid="u", issued=int(NOW) - DAY, expires=int(NOW) + DAY)
    first = _judge(token, known=living)
    assert first.revoke_before == first.use.not_before == int(NOW)
    second = _judge(token, known=msgspec.structs.replace(living, revoked_before=int(NOW)))
    assert second.revoke_before == second.use.not_before == int(NOW) + 1
    half_way = _judge(token, known=living, uses=[first.use])
    assert half_way.revoke_before == int(NOW) + 1  # that one's revocation was not written
    used = _token(replace=True, uses=(first.use,))
    again = _judge(msgspec.structs.replace(used, uses=(_use(key_sha256="mine", time=int(NOW), not_before=int(NOW)),)))
    assert again.is_repeat and again.revoke_before == int(NOW)
    done = KnownIdentity(node_uid="u", revoked_before=int(NOW))
    written = _token(replace=True, uses=(_use(key_sha256="mine", time=int(NOW), not_before=int(NOW)),))
    assert _judge(written, known=done).revoke_before == 0


def test_what_is_not_known_yet_is_not_judged():
    """Later; and an authority at its end signs nothing."""
    with pytest.raises(IdentityRefused) as caught:
        _judge(known=KnownIdentity(unknown="the hub has not read its nodes yet"))
    assert caught.value.code == "starting" and caught.value.retry_after
    ended = Authority(name="edge", not_after=datetime.datetime.fromtimestamp(NOW, datetime.UTC))
    with pytest.raises(SignerUnavailable, match="ca_cert"):
        _judge(authority=ended)


def test_so_many_a_second():
    """More at once than in the long run; who is refused learns when to come again."""
    limits = JoinLimits()
    taken = [limits.take(100.0, is_known=True) for _ in range(joining.ATTEMPTS_AT_ONCE + 1)]
    assert taken[:-1] == [0.0] * joining.ATTEMPTS_AT_ONCE and 0 < taken[-1] <= 0.1
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
    for _ in range(joining.FAILURES_MAX - 1):
        assert not limits.failed("a", 0.0)
    limits.passed("a")
    assert [limits.failed("a", 0.0) for _ in range(joining.FAILURES_MAX)][-1]
    assert limits.locked("a", 1.0) == joining.LOCKED_SECONDS - 1 and not limits.locked("b", 1.0)
    assert not limits.locked("a", joining.LOCKED_SECONDS)


def test_tables_end_somewhere(monkeypatch):
    """The oldest is forgotten first."""
    monkeypatch.setattr(joining, "COUNTED_MAX", 3)
    monkeypatch.setattr(joining, "FAILURES_MAX", 2)
    limits = JoinLimits()
    for id in "abcd":
        limits.failed(id, 0.0)
    assert not limits.failed("a", 0.0) and limits.failed("d", 0.0)
    for id in "efgh":
        limits.failed(id, 0.0), limits.failed(id, 0.0)
    assert not limits.locked("d", 0.0) and limits.locked("h", 0.0)
