"""What a start needs of a checkpoint, and the page that names it."""

from __future__ import annotations

import pytest

from fairlead_ingest import errors
from fairlead_ingest.pipeline import checkpoint_copy
from fairlead_ingest.pipeline.checkpoint_copy import CheckpointPage


def test_of_batches_the_newest_few_and_of_state_what_lies_behind_the_last_whole_one():
    paths = ["metadata", "offsets/8", "offsets/9", "offsets/10", "offsets/11", "commits/9", "commits/10"]
    state = [f"state/0/0/{number}.delta" for number in range(1, 13)]
    left_out = [".metadata.crc", "offsets/.12.x.tmp", "fairlead-hidden/1/a.json", "fairlead-lock", "commits/tmp"]
    # A snapshot of the batch's own end is none that the batch could begin with.
    whole = ["state/0/0/5.snapshot", "state/0/0/10.snapshot", "state/0/0/12.snapshot", "state/0/_metadata/metadata"]
    texts, kept = checkpoint_copy.needed([*paths, *state, *whole, *left_out], 11)
    assert sorted(texts) == ["commits/10", "commits/9", "metadata", "offsets/10", "offsets/11", "offsets/9"]
    assert sorted(kept) == sorted(
        ["state/0/0/10.delta", "state/0/0/11.delta", "state/0/0/12.delta", "state/0/0/10.snapshot", *whole[2:]]
    )


def test_state_of_another_kind_is_taken_whole():
    paths = ["state/0/0/3.zip", "state/0/0/3.changelog", "state/0/0/SSTs/0001.sst"]
    assert sorted(checkpoint_copy.needed(paths, 9)[1]) == sorted(paths)


def test_a_page_is_read_as_it_was_written_and_no_path_leads_out_of_the_folder():
    page = CheckpointPage(batch=3, texts={"metadata": "{}"}, archives={"state/3-a.tar": ["state/0/0/3.delta"]})
    assert checkpoint_copy.decode(checkpoint_copy.encode(page), "s3://a/b") == page
    for content, said in [
        (b"junk", "not a copy"),
        (b"{}", "not a copy"),
        (checkpoint_copy.encode(CheckpointPage(format=2, batch=3, texts={})), "another format"),
        (checkpoint_copy.encode(CheckpointPage(batch=3, texts={"../x": ""})), "the path"),
        (checkpoint_copy.encode(CheckpointPage(batch=3, texts={"/etc/x": ""})), "the path"),
        (checkpoint_copy.encode(CheckpointPage(batch=3, texts={}, archives={"a": ["a/../../x"]})), "the path"),
    ]:
        with pytest.raises(errors.Stop, match=f"FAIRLEAD_BAD_CHECKPOINT: s3://a/b: .*{said}"):
            checkpoint_copy.decode(content, "s3://a/b")
