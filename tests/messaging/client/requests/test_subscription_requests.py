"""What goes out about subscriptions, and how an answer is read."""

from __future__ import annotations

import pytest
from tests.support.topics.answers import refusal

from fairlead_messaging.client import errors, requests


def test_a_deletion_is_done_when_nothing_is_there_after_doubt() -> None:
    """A missing topic does not mean that the subscription went."""
    requests.delete_subscription("n", "t", "s").read(refusal(404, "subscription_not_found"), in_doubt=True)
    with pytest.raises(errors.TopicMissing):
        requests.delete_subscription("n", "t", "s").read(refusal(404, "topic_not_found"), in_doubt=True)
