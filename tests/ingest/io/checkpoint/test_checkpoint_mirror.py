"""Copies of a checkpoint in a real store: what is saved is restored, whatever is killed in between."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from fairlead_ingest.io.checkpoint import checkpoint_mirror
from fairlead_ingest.io.table import object_store
from fairlead_ingest.table.store_path import StorePath

pytestmark = pytest.mark.process


class Killed(BaseException):
    """In place of -9: nothing of ours catches it."""


def planned(folder: Path, batch: int) -> Path:
    for path, text in {
        "metadata": '{"id":"q"}',
        f"offsets/{batch}": f"v1\n{{}}\n{batch}",
        f"commits/{batch - 1}": "v1\n{}",
        f"state/0/0/{batch + 1}.delta": f"state after {batch}",
        "state/0/0/_metadata/schema": "schema",
    }.items():
        if (folder / path).exists() and path.endswith("schema"):
            continue
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    if batch and batch % 5 == 0:
        (folder / "state/0/0" / f"{batch}.snapshot").write_text(f"everything before {batch}")
    return folder


def content(folder: Path) -> dict[str, str]:
    names = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("fairlead-")]
    return {str(path.relative_to(folder)): path.read_text() for path in names}


def restored(place: StorePath, folder: Path) -> dict[str, str] | None:
    page = checkpoint_mirror.page_of(place)
    folder.mkdir()
    return content(folder) if page is not None and checkpoint_mirror.restore(page, folder, place) else None


def test_what_a_batch_needs_is_restored_and_what_it_needs_no_more_leaves_the_store(store, tmp_path):
    place, folder = store.place("saved/checkpoint"), tmp_path / "here"
    assert checkpoint_mirror.page_of(place) is None
    for batch in range(12):
        checkpoint_mirror.save(planned(folder, batch), place, batch)
    found = restored(place, tmp_path / "there")
    assert found is not None
    assert sorted(found) == sorted(
        ["metadata", "commits/8", "commits/9", "commits/10", "offsets/9", "offsets/10", "offsets/11",
         "state/0/0/10.delta", "state/0/0/11.delta", "state/0/0/12.delta", "state/0/0/10.snapshot",
         "state/0/0/_metadata/schema"]
    )  # fmt: skip
    there = [path for path in store.objects() if "saved" in path.parts]
    assert len(there) == 1 + 4, "the page; archives with the schema, and with the deltas 10, 11 and 12"
    # A batch that is done again on the other machine writes its state again, under the same name.
    again = planned(tmp_path / "there", 11)
    (again / "state/0/0/12.delta").write_text("state after 11, again")
    checkpoint_mirror.save(again, place, 11)
    found = restored(place, tmp_path / "third")
    assert found is not None and found["state/0/0/12.delta"] == "state after 11, again"


@pytest.mark.parametrize("step", range(6))
def test_killed_at_each_step_of_a_copy_the_older_or_the_newer_one_is_whole(store, tmp_path, monkeypatch, step):
    """Before and after each of its requests: the archive, the page, what is needed no more."""
    place, folder = store.place(f"killed/{step}"), tmp_path / "here"
    for batch in range(5):
        checkpoint_mirror.save(planned(folder, batch), place, batch)
    older = restored(place, tmp_path / "older")
    steps: list[str] = []

    def may_die(of: object, name: str) -> None:
        act = getattr(of, name)

        def dying(*given: object) -> object:
            for moment in ("before", "after"):
                answer = act(*given) if moment == "after" else None
                steps.append(f"{moment} {name}")
                if len(steps) == step + 1:
                    raise Killed(steps[-1])
            return answer

        monkeypatch.setattr(of, name, dying)

    for of, name in ((object_store.Upload, "finish"), (object_store, "write"), (object_store, "delete_below")):
        may_die(of, name)
    with pytest.raises(Killed):
        checkpoint_mirror.save(planned(folder, 5), place, 5)
    monkeypatch.undo()
    found = restored(place, tmp_path / "after")
    assert found is not None
    newer = "offsets/5" in found
    assert newer == (("write" in steps[-1] and "after" in steps[-1]) or "delete" in steps[-1]), steps
    assert found == older if not newer else found["state/0/0/6.delta"] == "state after 5"
    # The next copies of the process that goes on tidy up what the killed one left.
    for batch in (5, 6):
        checkpoint_mirror.save(planned(tmp_path / "after", batch), place, batch)
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=2)
    page = checkpoint_mirror.page_of(place)
    assert page is not None
    checkpoint_mirror.tidy(page, place, later)
    there = {str(path.relative_to(place.key)) for path in store.objects() if path.parts[:2] == ("killed", str(step))}
    assert there == {"checkpoint.json", *page.archives}
    assert restored(place, tmp_path / "last") is not None


def test_a_copy_that_lacks_a_part_is_said_to_and_young_archives_are_left_alone(store, tmp_path):
    place = store.place("lacking/checkpoint")
    checkpoint_mirror.save(planned(tmp_path / "here", 0), place, 0)
    page = checkpoint_mirror.page_of(place)
    assert page is not None
    checkpoint_mirror.tidy(None, place, datetime.datetime.now(datetime.UTC))
    assert restored(place, tmp_path / "whole") is not None
    checkpoint_mirror.tidy(None, place, datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=2))
    assert restored(place, tmp_path / "lacking") is None
