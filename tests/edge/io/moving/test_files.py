"""The files of a move: what is there when, and what a person reads of one that is damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead_edge.io.moving.files import MovedHub, MoveFiles, MoveFilesError, MovePlan, MoveProgress

PLAN = MovePlan(node="edge-1", since="wss://old:1", until="wss://new:1", deadline_seconds=5.0)


@pytest.fixture
def files(tmp_path: Path) -> MoveFiles:
    found = MoveFiles(tmp_path)
    found.make_folder()
    return found


def test_from_the_plan_to_the_settings(files: MoveFiles) -> None:
    assert files.plan() is None and files.staged_for() == ""
    files.note_staged("wss://new:1")
    files.ask(PLAN)
    files.write_progress(MoveProgress(step="deliver", waiting=3, connected=True))
    assert files.plan() == PLAN and files.progress() == MoveProgress(step="deliver", waiting=3, connected=True)
    assert files.switched() is None and files.staged_for() == "wss://new:1"
    files.switch()
    assert files.plan() is None and files.switched() == PLAN
    moved = MovedHub(since="wss://old:1", until="wss://new:1", tls_ca="/ca", tls_pair="/pair")
    files.complete(moved)
    assert files.moved() == moved and files.switched() is None and not files.folder.exists()
    files.forget_moved()
    assert files.moved() is None and list(files.data_dir.iterdir()) == []


def test_given_up_keeps_the_identity_and_cancelled_does_not(files: MoveFiles) -> None:
    files.note_staged("wss://new:1")
    files.ask(PLAN)
    files.give_up(MoveProgress(step="gave up", waiting=3))
    assert files.plan() is None and files.staged_for() == "wss://new:1"
    files.ask(PLAN)
    assert files.progress() is None
    files.cancel()
    assert files.plan() is None and not files.folder.exists()


def test_what_cannot_be_read_is_a_sentence(files: MoveFiles) -> None:
    (files.folder / "plan.json").write_text("[")
    with pytest.raises(MoveFilesError, match=r"plan\.json: cannot be read"):
        files.plan()
