"""A search that finds nothing proves nothing: it finds what is planted, names it once, and makes it short."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fuzz import corpus
from tests.fuzz.minimise import minimise
from tests.fuzz.search import search, try_some
from tests.fuzz.target import Broken, Target, attempt, promise


def planted(content: bytes) -> None:
    """Refuses all but what begins with a bracket; breaks where one letter follows another that coverage leads to."""
    if not content.startswith(b"{"):
        raise ValueError("no object")
    promise(content.count(b"{") < 40, "brackets are few")
    if b"u" in content:
        assert b"\x00" not in content


TARGET = Target(name="planted", says="Of this test.", read=planted, refusals=(ValueError,), shape="text", words=(b"u",))


@pytest.fixture(autouse=True)
def corpus_of_one(monkeypatch, tmp_path) -> None:
    """What is committed for it, and nothing that an earlier run found."""
    monkeypatch.setattr(corpus, "CORPUS", tmp_path)
    monkeypatch.setattr(corpus, "GROWN", tmp_path / "grown")
    (tmp_path / "planted").mkdir()
    (tmp_path / "planted" / "one").write_bytes(b'{"a": 1}')


@pytest.mark.slow
def test_what_is_planted_is_found_the_same_each_time() -> None:
    found = try_some(TARGET, "fixed", 4000)
    assert {finding.kind for _, finding in found.findings.values()} == {"Broken", "AssertionError"}
    assert found == try_some(TARGET, "fixed", 4000)


def test_a_guided_search_ends_by_its_clock_and_keeps_what_reached_more() -> None:
    moments = iter(range(1000))
    found = search(TARGET, "fixed", 50, clock=lambda: next(moments))
    assert found.tried > 1000
    assert found.findings


def test_a_finding_is_made_as_short_as_can_be() -> None:
    broken = attempt(TARGET, b"{ and some more" + b"{" * 100 + b"uuu")
    assert broken is not None and broken.kind == Broken.__name__

    def same(content: bytes) -> bool:
        found = attempt(TARGET, content)
        return found is not None and found.same == broken.same

    assert minimise(b"{ and some more" + b"{" * 100 + b"uuu", same) == b"{" * 40


def test_a_finding_is_written_beside_its_sentence(tmp_path: Path) -> None:
    path = corpus.write_finding("planted", b"{{", "brackets\nare few", tmp_path)
    assert path.read_bytes() == b"{{"
    assert path.with_name(path.name + ".why").read_text() == "brackets are few\n"
    assert corpus.committed("planted").keys() == {"one", path.name}
