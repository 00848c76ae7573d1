"""Who publishes: epochs and fences, and one number for each message."""

from __future__ import annotations

import pytest
from tests.support.topics.messaging_core import producer

from fairlead_messaging.api.errors import Conflict, Refused
from fairlead_messaging.server import producers as producers
from fairlead_messaging.server.producers import Epochs


def test_epochs() -> None:
    """Older ones are welcome until a newer one fences."""
    epochs = Epochs()
    assert epochs.note(producer(0, epoch=5))
    epochs.check(producer(0, epoch=3))
    assert not epochs.note(producer(0, epoch=3))
    with pytest.raises(Conflict):
        epochs.check(producer(0, epoch=3, fence=True))
    epochs.note(producer(0, epoch=5, fence=True))
    for again in (epochs, Epochs(epochs.encode())):
        with pytest.raises(Conflict):
            again.check(producer(0, epoch=4))
        again.check(producer(0, epoch=5))


def test_one_number_for_each_message() -> None:
    """Consecutive from the first, or one each."""
    made = producers.make(producer_id="p", epoch=0, sequence=7, sequences=None, fence=False, messages=3)
    assert made.sequences == (7, 8, 9)
    with pytest.raises(Refused, match="2 numbers for 3"):
        producers.make(producer_id="p", epoch=0, sequence=None, sequences=[1, 2], fence=False, messages=3)
