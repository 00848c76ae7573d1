"""Where tables and checkpoints may lie."""

from __future__ import annotations

import pytest

from fairlead_ingest.table import store_path


@pytest.mark.parametrize(
    ("pipelines", "reason"),
    [
        ([("p", "/d/t", "/d/t")], "checkpoint: /d/t would be the rows of p and the checkpoint of p"),
        ([("p", "/d/t", "/d/x/../t/")], "checkpoint: /d/t would be"),
        ([("p", "/d/t", "/d/t_dead_letters")], "checkpoint: .*dead letters of p"),
        ([("p", "/d/t/", "/d/t_gaps")], "checkpoint: .*gaps of p"),
        ([("p", "/d/t", "/d/t/checkpoint")], "checkpoint: .*lies in the rows of p; put it beside"),
        ([("p", "/d/c/t", "/d/c")], "checkpoint: .*the rows of p, lies in the checkpoint of p"),
        ([("p", "/d/t", "/d/c"), ("q", "/d/t_gaps", "/d/e")], "table: /d/t_gaps would be"),
        ([("p", "s3://b/t", "/d/c"), ("q", "s3://b/t/", "/d/e")], "table: s3://b/t would be"),
        ([("p", "/d/t", "/d/c"), ("q", "/d/u", "/d/c")], "checkpoint: /d/c would be the checkpoint of p and"),
        ([("p", "/d/t", "/d/c"), ("q", "/d/t/u", "/d/e")], "table: .*the rows of q, lies in the rows of p"),
    ],
)
def test_one_folder_is_not_two_things(pipelines: list[tuple[str, str, str]], reason: str) -> None:
    """Nor one in another."""
    with pytest.raises(ValueError, match=reason):
        store_path.check(pipelines)


def test_neighbours_and_hidden_folders_are_all_right() -> None:
    """Names that only begin alike; a checkpoint where Spark's users often put it."""
    store_path.check([("p", "/d/t", "/d/t-checkpoint"), ("q", "/d/t2", "/d/t2/_checkpoint"), ("r", "t", "c")])
