"""The writer against a simple model, over lost writes, restarts and clock steps."""

from __future__ import annotations

from random import Random

import pytest
from tests.support.messaging_core import NAMESPACE, Core, producer, publish

from fairlead_messaging.commands import (
    Abort,
    Command,
    Commit,
    CreateTopic,
    DeleteTopic,
    Expire,
    Invalidate,
    Message,
    Publish,
    Published,
    Rollback,
    Settle,
    Start,
    Store,
)
from fairlead_messaging.errors import Conflict, MessagingError, NotFound


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
    kept: Published = core.do(publish("t", "kept"))
    assert kept.first is not None and kept.first.sequence == 1


class Model:
    """What must be readable, kept as plainly as can be."""

    def __init__(self) -> None:
        self.open: dict[int, list[tuple[str, str]]] = {}
        self.order: list[str] = []
        self.decided: set[str] = set()
        self.hidden: set[str] = set()

    def visible(self) -> list[str]:
        """In order of publication, up to the first undecided message."""
        found = []
        for name in self.order:
            if name in self.hidden:
                continue
            if name not in self.decided:
                break
            found.append(name)
        return found


@pytest.mark.parametrize("seed", range(25))
def test_any_interleaving_reads_as_the_model_says(seed: int) -> None:
    """Groups of random commands, some lost, restarts and clock steps between: one order, nothing lost or revived."""
    rng = Random(seed)
    core, model = Core(), Model()
    core.create("t")
    number = sequence = 0
    seen: list[str] = []
    position = bytes(20)
    for _ in range(60):
        commands: list[tuple[Command, list[str]]] = []
        for _ in range(rng.randint(1, 4)):
            names = [f"m{number + index}" for index in range(rng.randint(1, 3))]
            number += len(names)
            pointer = rng.choice(list(model.open)) if model.open and rng.random() < 0.7 else None
            kind = rng.choice(["publish", "publish", "once", "start", "end", "store", "expire"])
            if kind == "once":
                numbers = tuple(range(sequence, sequence + len(names)))
                sequence += len(names)
                commands.append((publish("t", *names, producer=producer(*numbers)), names))
            elif kind == "start":
                commands.append((Start(timeout_seconds=rng.choice([0.5, 500.0])), []))
            elif kind == "end" and pointer is not None:
                commands.append((rng.choice([Commit(pointer=pointer, changes=[]), Abort(pointer=pointer)]), []))
            elif kind == "store" and pointer is not None:
                messages = [Message(name.encode()) for name in names]
                commands.append((Store(namespace=NAMESPACE, name="t", messages=messages, pointer=pointer), names))
                commands.append((publish("t", pointer=pointer), []))
            elif kind == "expire":
                commands.append((Expire(), []))
            else:
                commands.append((publish("t", *names, pointer=pointer), names))
        lost = rng.random() < 0.15
        answers = core.batch(*(command for command, _ in commands), lost=lost)
        if not lost:
            for (command, names), answer in zip(commands, answers, strict=True):
                _apply(model, command, names, answer, core)
        if rng.random() < 0.2:
            core.restart()
        core.now_ms += rng.randrange(-400, 600)
        if rng.random() < 0.3:
            core.do(Settle())
        page = core.page("t", after=position, limit=rng.randint(1, 5), committed=True)
        seen += [payload.decode() for payload in page.payloads]
        position = page.next_position
        assert core.read("t", committed=True) == model.visible()
    for pointer in list(model.open):
        model_names = model.open.pop(pointer)
        core.do(Invalidate(pointer=pointer))
        model.hidden.update(name for name, _ in model_names)
    while core.do(Settle()):
        continue
    whole = core.page("t", committed=True)
    assert [payload.decode() for payload in whole.payloads] == model.visible()
    assert whole.ids == sorted(set(whole.ids))
    assert seen == model.visible()[: len(seen)]


def _apply(model: Model, command: Command, names: list[str], answer: object, core: Core) -> None:
    if isinstance(answer, MessagingError):
        assert isinstance(answer, Conflict)
        return
    match command:
        case Start():
            model.open[answer.transaction.pointer] = []  # type: ignore[attr-defined]
        case Publish(pointer=None):
            model.order += names
            model.decided.update(names)
        case Publish(pointer=pointer) if command.messages:
            model.order += names
            model.open[pointer] += [(name, "published") for name in names]
        case Publish(pointer=pointer):
            stored = [name for name, state in model.open[pointer] if state == "stored"]
            model.order += stored
            model.open[pointer] = [(name, "published") for name, _ in model.open[pointer]]
        case Store(pointer=pointer):
            model.open[pointer] += [(name, "stored") for name in names]
        case Commit(pointer=pointer):
            model.decided.update(name for name, state in model.open.pop(pointer) if state == "published")
        case Abort(pointer=pointer):
            model.hidden.update(name for name, _ in model.open.pop(pointer))
        case Expire():
            late = [pointer for pointer in model.open if core.service.transactions.state(pointer) == "invalid"]
            for pointer in late:
                model.hidden.update(name for name, _ in model.open.pop(pointer))


def test_a_rollback_marks_within_the_open_transaction() -> None:
    """Its rows are skipped at once, the rest still holds."""
    core = Core()
    core.create("t")
    pointer = core.do(Start(timeout_seconds=5)).transaction.pointer
    first = core.do(publish("t", "a", "b", pointer=pointer))
    core.do(publish("t", "plain"))
    core.do(Rollback(namespace=NAMESPACE, name="t", pointer=pointer, first=first.first, last=first.last))
    assert core.read("t", committed=True) == ["plain"]
