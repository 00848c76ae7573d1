"""The one line of a file with a secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead_ingest import errors
from fairlead_ingest.io.table.iceberg.secret_file import read_secret


def test_the_line_is_taken_without_what_editors_put_around_it(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("hush-hush\n")
    assert read_secret("token_file", str(tmp_path / "token")) == "hush-hush"
    assert read_secret("token_file", None) is None


@pytest.mark.parametrize("content", [b"two\nlines", b"", b"\n", b"hush\xff\xfe"])
def test_what_is_no_line_is_refused_without_a_word_of_it(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "token").write_bytes(content)
    with pytest.raises(errors.Stop, match=f"{errors.BAD_OPTION}: .*token_file .*one line") as refused:
        read_secret("token_file", str(tmp_path / "token"))
    assert "hush" not in str(refused.value) and "lines" not in str(refused.value).replace("one line", "")


def test_a_file_that_is_not_there_is_named_with_its_key(tmp_path: Path) -> None:
    with pytest.raises(errors.Stop, match=r"token_file .*none"):
        read_secret("token_file", str(tmp_path / "none"))
