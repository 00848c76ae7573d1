"""The type of a setting that names a file or directory; a leading ``~`` is the user's home directory."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

FILE_PATH: Final = msgspec.Meta(extra={"fairlead": "path"})
FilePath = Annotated[str, FILE_PATH]
