"""One way into the hub's core and one way out, by search: no foreign writes, no second clock, few collaborators."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2] / "operator" / "fairlead_hub"
SESSION = ("session", "link.session", "old", "each")
"""What a NodeSession is called outside its room."""
CLOCKS = frozenset({"time.time", "time.monotonic", "datetime.datetime.now", "datetime.now", "loop.time"})
MAY_ASK_THE_TIME = ("app.py", "io/", "wall_clock.py")
COLLABORATORS_MAX = 4
VALUES = frozenset({"str", "int", "float", "bool", "HubSettings", "Counts"})
"""Not collaborators, whatever their module: names, numbers, settings, totals."""


def modules(*rooms: str) -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if not rooms or name.startswith(rooms):
            yield name, ast.parse(path.read_text())


def written(tree: ast.Module) -> Iterator[tuple[int, ast.Attribute]]:
    """Every attribute that is assigned."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets):
                found = targets
            case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
                found = [target]
            case _:
                continue
        for assigned in found:
            for each in ast.walk(assigned):
                if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store):
                    yield node.lineno, each


def foreign(tree: ast.Module) -> list[str]:
    """Writes into something that is not ``self``, of what is called like a session."""
    return [
        f"{line}: {ast.unparse(each)}"
        for line, each in written(tree)
        if ast.unparse(each.value).removeprefix("self.") in SESSION
    ]


@pytest.mark.slow
def test_nothing_writes_into_a_session_from_outside() -> None:
    """It is paused, refused or drained by its own methods."""
    found = {name: bad for name, tree in modules() if not name.startswith("delivery/") and (bad := foreign(tree))}
    assert not found, found


def test_the_search_finds_what_it_looks_for() -> None:
    """A rule that finds nothing proves nothing."""
    sample = "session.hold = 'x'\nlink.session.noted[k] = 1\nself.session = s\nsession.closing, a = b, 1\n"
    assert foreign(ast.parse(sample)) == ["1: session.hold", "4: session.closing"]


@pytest.mark.slow
def test_time_is_an_argument_and_there_is_one_wall_clock() -> None:
    """The core never asks for the time, keeps no ``now``, and makes texts of times in one module."""
    found = []
    for name, tree in modules():
        if name.startswith(MAY_ASK_THE_TIME):
            continue
        found += [f"{name}:{line}: keeps {ast.unparse(each)}" for line, each in written(tree)
                  if each.attr in ("now", "_now", "wall_offset")]  # fmt: skip
        found += [f"{name}:{node.lineno}: asks {ast.unparse(node.func)}" for node in ast.walk(tree)
                  if isinstance(node, ast.Call) and ast.unparse(node.func) in CLOCKS]  # fmt: skip
        if "fromtimestamp" in ast.unparse(tree) and name != "leadership.py":
            found.append(f"{name}: makes texts of times of its own")
    assert not found, "\n".join(found)


@pytest.mark.slow
def test_totals_are_added_to_by_their_own_methods() -> None:
    """Of the core as of the rim: nothing outside writes their numbers."""
    found = [f"{name}:{line}: {ast.unparse(each)}" for name, tree in modules() for line, each in written(tree)
             if ast.unparse(each.value).rpartition(".")[2].strip("_") == "counts"]  # fmt: skip
    assert not found, "\n".join(found)


def test_the_parts_are_joined_by_arguments_and_methods() -> None:
    """``app`` writes its own attributes only: no callback is put into an object after it was made."""
    [(_, app)] = modules("app.py")
    found = [f"{line}: {ast.unparse(each)}" for line, each in written(app) if ast.unparse(each.value) != "self"]
    assert not found, "\n".join(found)


PUBLIC = frozenset(
    """cluster sessions documents certificates view
    take_ready subscribe heartbeat started stopped reconcile report raise_fence name fence""".split()  # noqa: SIM905
)
"""What the shell may use of ``Hub``; of the first five their methods and values, one level deep."""
PARTS = ("cluster", "sessions", "documents", "certificates", "view")
VALUES_OF_VIEW = ("settings", "counts", "clock")
"""Immutable, or only added to by the core; read as deep as they go."""


def beyond(tree: ast.Module) -> list[str]:
    """Attribute chains on a hub that reach what is not public."""
    found = []
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or id(node) in inner or "(" in ast.unparse(node):
            continue  # what a call returns is a value
        names = ast.unparse(node).removeprefix("self.").split(".")
        match [names[0].lstrip("_"), *names[1:]]:
            case ["hub", name, *more] if name not in PUBLIC or (name not in PARTS and more):
                found.append(f"{node.lineno}: {ast.unparse(node)}")
            case ["hub", part, name, *more]:
                is_value = part == "view" and name in VALUES_OF_VIEW
                if (more and not is_value) or name.startswith("_") or name in ("index", "terms"):
                    found.append(f"{node.lineno}: {ast.unparse(node)}")
            case ["view", name, *_] if name.startswith("_"):
                found.append(f"{node.lineno}: {ast.unparse(node)}")
    return found


@pytest.mark.slow
def test_the_shell_reads_no_part_of_the_core() -> None:
    """Changes go in by the four parts, what to do comes out by ``take_ready``, what is shown is in ``hub.view``."""
    rooms = modules("io/", "app.py", "console/", "explain.py", "rollout.py", "http_operations.py")
    found = [f"{name}:{each}" for name, tree in rooms for each in beyond(tree)]
    assert not found, "\n".join(found)


def test_the_search_for_parts_of_the_core_finds_them() -> None:
    """A rule that finds nothing proves nothing."""
    sample = """
self._hub.placement.rules
hub.status_cache
hub.sessions.index.by_node
hub.sessions.of_node(node).agent
hub.view.settings.link.nodes_max
hub.cluster.put_object(live, now)
hub.view._sessions
hub.fence.bit_length
"""
    assert [each.partition(":")[0] for each in beyond(ast.parse(sample))] == ["2", "3", "4", "8", "9"]


def test_ready_is_carried_out_without_calling_the_core() -> None:
    """``perform`` takes, then nothing that it calls knows the hub."""
    [(_, server)] = modules("io/link/link_server.py")
    carrying = ("send", "_write", "_cut", "_close", "_room_changed")
    for node in ast.walk(server):
        if isinstance(node, ast.FunctionDef) and node.name in carrying:
            assert "_hub" not in ast.unparse(node), node.name


@pytest.mark.slow
def test_collaborators_are_few() -> None:
    """A constructor that needs more than four others wants a value that goes between them."""
    found = []
    for name, tree in modules("core/", "status/", "events/", "upstream/", "cluster/"):
        for cls in [node for node in tree.body if isinstance(node, ast.ClassDef)]:
            for init in cls.body:
                if isinstance(init, ast.FunctionDef) and init.name == "__init__":
                    given = [*init.args.args[1:], *init.args.kwonlyargs]
                    others = [each.arg for each in given
                              if each.annotation and ast.unparse(each.annotation) not in VALUES]  # fmt: skip
                    if len(others) > COLLABORATORS_MAX:
                        found.append(f"{name}: {cls.name} takes {others}")
    assert not found, "\n".join(found)
