"""Connections that wait to be read again: each has its turn, however much the others send."""

from __future__ import annotations

from collections.abc import Callable

from fairlead_edge.io.mqtt.intake import Turns


class World:
    """Connections by name; one that floods leaves no room for others when it is read."""

    def __init__(self, floods: str) -> None:
        self.is_pressed = False
        self.floods = floods
        self.read: list[str] = []
        self.soon: list[Callable[[], None]] = []
        self.turns = Turns(soon=self.soon.append, is_pressed=lambda: self.is_pressed)
        self.connections: list[Connection] = []

    def press(self) -> None:
        self.is_pressed = True
        self.turns.hold(self.connections)

    def release(self) -> None:
        self.is_pressed = False
        self.turns.go_on()
        while self.soon:
            self.soon.pop(0)()


class Connection:
    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        world.connections.append(self)

    def pressed(self) -> None:
        if not self.world.is_pressed:
            self.world.read.append(self.name)
            if self.name in self.world.floods:
                self.world.press()


def test_one_that_floods_does_not_keep_the_others_waiting() -> None:
    world = World("FG")
    for name in "FGabc":
        Connection(world, name)
    world.press()
    for _ in range(20):
        world.release()
    assert min(world.read.count(name) for name in "abc") >= 5
    assert len(world.turns) == 5


def test_all_are_read_when_there_is_room() -> None:
    world = World("")
    for name in "abc":
        Connection(world, name)
    world.press()
    world.release()
    world.release()
    assert (world.read, len(world.turns)) == (["a", "b", "c"], 0)


def test_one_that_is_gone_has_no_turn() -> None:
    world = World("")
    first = Connection(world, "a")
    Connection(world, "b")
    world.press()
    world.turns.gone(first)
    world.turns.gone(first)
    world.release()
    assert world.read == ["b"]
