"""Changed inputs: the same for the same seed, well formed mostly, never longer than an input may be."""

from __future__ import annotations

import json
import random

import pytest
from tests.fuzz import corpus, der
from tests.fuzz.mutate import Mutator, join_story, split_frame, split_story
from tests.fuzz.target import INPUT_BYTES_MAX
from tests.fuzz.targets import TARGETS


def some(name: str, count: int = 200) -> list[bytes]:
    target, chance = TARGETS[name], random.Random("here")
    mutator = Mutator(target.shape, target.words, list(corpus.committed(name).values()))
    return [mutator.next(chance) for _ in range(count)]


@pytest.mark.parametrize(
    "name", ["link-from-edge", "certificate", "route-manifest", "messaging-body", "link-hub-hears"]
)
def test_the_same_seed_gives_the_same_inputs(name: str) -> None:
    inputs = some(name)
    assert inputs == some(name)
    assert len(set(inputs)) > 100
    assert all(len(each) <= INPUT_BYTES_MAX for each in inputs)


def is_json(content: bytes) -> bool:
    try:
        json.loads(content)
    except (ValueError, RecursionError):
        return False
    return True


def test_most_changed_inputs_are_still_taken_apart() -> None:
    """Else everything would end at the outermost bracket."""
    assert sum(map(is_json, some("route-manifest"))) > 60
    assert sum(der.parse(each) is not None for each in some("certificate")) > 60
    assert sum(split_frame(each) is not None for each in some("link-from-edge")) > 100


def test_der_is_written_as_it_was_read() -> None:
    for content in corpus.committed("certificate").values():
        if (tree := der.parse(content)) is not None:
            assert der.encode(tree) == content


def test_a_story_is_written_as_it_was_read() -> None:
    frames = [b"", b"a", b"bc" * 1000]
    assert split_story(join_story(frames)) == frames
