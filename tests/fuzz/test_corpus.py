"""Each input of the corpus, and some hundred changed ones for each parser, the same at every run: no parser gives way.

``make fuzz`` goes on from here with chance and time.  A finding stands in the corpus with its sentence; this shows that
it is mended and stays so.
"""

from __future__ import annotations

import pytest
from tests.fuzz import corpus
from tests.fuzz.search import try_some
from tests.fuzz.target import Target, attempt
from tests.fuzz.targets import TARGETS


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS.keys())
def test_no_input_breaks_what_a_parser_promises(target: Target) -> None:
    """It is understood, or refused by name."""
    kept = corpus.committed(target.name)
    assert len(kept) >= 2, f"tests/corpus/{target.name} needs an input that is understood and one that is refused"
    for name, content in kept.items():
        finding = attempt(target, content)
        assert finding is None, f"tests/corpus/{target.name}/{name}: {finding.sentence}"
    found = try_some(target, "fixed", target.tries)
    assert not found.findings, "\n".join(
        f"{finding.sentence}\n  {content[:2000]!r}" for content, finding in found.findings.values()
    )
