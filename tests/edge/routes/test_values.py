"""Undefined is one value of its own."""

from __future__ import annotations

import pickle

from fairlead_edge.routes.values import NAN, UNDEFINED, Undefined


def test_there_is_one_undefined() -> None:
    """`is` is enough to know it, also after it travelled."""
    assert Undefined("undefined") is UNDEFINED
    assert pickle.loads(pickle.dumps(UNDEFINED)) is UNDEFINED
    assert repr(UNDEFINED) == "UNDEFINED"


def test_nan_differs_from_itself() -> None:
    """The test for an undefined number."""
    assert NAN != NAN
