"""The one writer: order within a batch, and what a failed write leaves behind."""

from __future__ import annotations

import pytest
from tests.sim.laws import LawBroken
from tests.sim.messaging_world import MessagingWorld
from tests.support.topics.messaging_core import NAMESPACE, Core, publish

from fairlead_messaging.api.errors import NotFound
from fairlead_messaging.server.commands import CreateTopic, DeleteTopic, PublishedAt
from fairlead_messaging.server.transactions.commands import Rollback, Start


def test_a_deleted_topic_is_gone_within_the_same_batch() -> None:
    """Commands of one batch see each other in order."""
    core = Core()
    core.create("t")
    gone, refused, created = core.batch(
        DeleteTopic(namespace=NAMESPACE, name="t"),
        publish("t", "a"),
        CreateTopic(namespace=NAMESPACE, name="t", ttl_seconds=5, properties={}),
    )
    assert gone.generation == -1
    assert isinstance(refused, NotFound)
    assert created.generation == 2


def test_positions_are_not_given_out_twice_after_a_failed_write() -> None:
    """Whether it took place is unknown, so its positions stay burnt."""
    core = Core()
    core.create("t")
    core.batch(publish("t", "lost"), lost=True)
    kept: PublishedAt = core.do(publish("t", "kept"))
    assert kept.first is not None and kept.first.sequence == 1


def test_the_laws_notice_an_answer_before_the_write() -> None:
    """The simulated world (tests/sim, played with the others) can fail: the classic mistake breaks it every time."""
    for seed in range(5):
        with pytest.raises(LawBroken):
            MessagingWorld(seed, acks_before_write=True).run()


def test_a_rollback_marks_within_the_open_transaction() -> None:
    """Its rows are skipped at once, the rest still holds."""
    core = Core()
    core.create("t")
    pointer = core.do(Start(timeout_seconds=5)).transaction.pointer
    first = core.do(publish("t", "a", "b", pointer=pointer))
    core.do(publish("t", "plain"))
    core.do(Rollback(namespace=NAMESPACE, name="t", pointer=pointer, first=first.first, last=first.last))
    assert core.read("t", committed=True) == ["plain"]
