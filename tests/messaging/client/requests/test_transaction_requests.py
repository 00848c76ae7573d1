"""What goes out about transactions, and how an answer is read."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.topics.answers import refusal

from fairlead_messaging.client import errors, requests


@pytest.mark.parametrize(("how", "state"), [("commit", "committed"), ("abort", "aborted"), ("invalidate", "invalid")])
def test_a_finished_transaction_is_as_good_only_after_doubt(how: Any, state: str) -> None:
    """Another program may have finished it; after a lost answer it was surely we."""
    over = refusal(409, "transaction_not_in_progress", state=state)
    with pytest.raises(errors.TransactionOver):
        requests.finish_transaction(1, how).read(over)
    requests.finish_transaction(1, how).read(over, in_doubt=True)
    requests.finish_transaction(1, how, may_be_done=True).read(over)
    other = refusal(409, "transaction_not_in_progress", state="unknown")
    with pytest.raises(errors.TransactionOver):
        requests.finish_transaction(1, how).read(other, in_doubt=True)
