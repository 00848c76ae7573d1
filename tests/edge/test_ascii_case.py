"""Names in any case: A to Z alone."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_edge import ascii_case
from fairlead_edge.outbox import authorship, publishing
from fairlead_edge.outbox.publishing import RefusalReason, Submission
from fairlead_edge.routes.endpoints import SourcePattern


def test_letters_of_other_scripts_have_no_case() -> None:
    assert ascii_case.same("/Messages/MODULES", "/messages/modules")
    assert not ascii_case.same("\u212aitchen", "kitchen")  # the Kelvin sign
    assert not ascii_case.same("me\u017f\u017fages", "messages")  # the long s
    assert not ascii_case.same("\u00c4", "\u00e4")


@given(st.text(max_size=8), st.text(max_size=8))
def test_it_is_what_a_pattern_for_ascii_says(one: str, other: str) -> None:
    found = re.fullmatch(re.escape(one), other, re.IGNORECASE | re.ASCII)
    assert ascii_case.same(one, other) == (found is not None)


@pytest.mark.parametrize(
    "source", ["/me\u017f\u017fages/modules/filter", "/\u017fmessages", "/twinChangeNotification\u017f"]
)
def test_a_source_that_looks_like_another_is_refused(source: str) -> None:
    assert publishing.source_wrong(source) is not None
    assert not SourcePattern("/messages").matches(source)


def test_the_rule_of_tokens_takes_what_the_pattern_takes() -> None:
    """A program without a token publishes as no module that has one, in whatever case."""
    for source in ("/messages/modules/filter", "/MESSAGES/Modules/FILTER", "/Messages/modules/Filter/outputs/o"):
        assert publishing.source_wrong(source) is None
        found = authorship.stamped(
            Submission(source=source), module="", node="n", has_token=lambda name: ascii_case.same(name, "filter")
        )
        assert isinstance(found, RefusalReason)
