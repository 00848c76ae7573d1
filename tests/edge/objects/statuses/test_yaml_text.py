"""YAML becomes values of JSON, and nothing else."""

from __future__ import annotations

import pytest

from fairlead_edge.objects.statuses.yaml_text import BadYaml, load


def test_values_are_those_of_json() -> None:
    assert load(b"a: [1, 2.5, yes, ~, 2020-01-01]") == {"a": [1, 2.5, True, None, "2020-01-01"]}


@pytest.mark.parametrize(
    "text",
    [
        b"a: &x 1\nb: *x",
        b"1: a",
        b"a: .nan",
        b"a: .inf",
        b"a: !!binary aGk=",
        b"!!python/name:os.system",
        b"a: [",
        b"\xff",
    ],
)
def test_others_are_refused(text: bytes) -> None:
    with pytest.raises(BadYaml):
        load(text)
