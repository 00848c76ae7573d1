"""A setting that is a path is plain text for everybody but the reader of settings."""

from __future__ import annotations

from typing import get_type_hints

import msgspec

from fairlead_wire.validation.file_path import FILE_PATH, FilePath


class Model(msgspec.Struct):
    data_dir: FilePath


def test_it_is_text_with_a_mark() -> None:
    """Decoders take it as text; the mark is found by who looks for it."""
    assert msgspec.convert({"data_dir": "~/x"}, Model).data_dir == "~/x"
    assert get_type_hints(Model, include_extras=True)["data_dir"].__metadata__ == (FILE_PATH,)
