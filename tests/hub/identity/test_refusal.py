"""What a device hears."""

from fairlead_hub.identity import refusal
from fairlead_hub.identity.csr import CsrRefused
from fairlead_hub.identity.refusal import IdentityRefused
from fairlead_hub.identity.signer import SignerUnavailable
from fairlead_wire import message


def test_every_way_to_be_refused_has_a_code_and_says_whether_to_come_again():
    """A wrong request stays wrong; a signer comes back."""
    known = IdentityRefused("token_used", "it was used")
    assert refusal.of(known) is known
    assert known.frame() == message.Refuse(code="token_used", reason="it was used", retry_after=None)
    assert refusal.of(CsrRefused("weak", code="csr_key")).frame() == message.Refuse(code="csr_key", reason="weak")
    away = refusal.of(SignerUnavailable("away")).frame()
    assert (away.code, away.retry_after) == ("signer_unavailable", refusal.UNAVAILABLE_RETRY_SECONDS)
    assert refusal.of(SignerUnavailable("later", retry_after_seconds=60)).retry_after == 60
