"""A user's own transforms, found by name: ``module:function`` on the path, or ``path.py:function`` beside the settings.

A transform is a function from DataFrame to DataFrame. It may add and drop columns of its own; the row's identity and
the passengers ``_error`` and ``_payload`` must still be there afterwards.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import cast

from pyspark.sql import DataFrame

from fairlead_ingest import errors
from fairlead_ingest.rows.transforms import PASSENGERS

Transform = Callable[[DataFrame], DataFrame]
KEPT = ("_topic", "_id", "_published_at")


def load(name: str, *, option: str = "transforms") -> Transform:
    """The function called ``name``, as ``option`` says. Raises ``Stop`` saying what could not be found."""
    place, _, function = name.rpartition(":")
    try:
        module = _file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
        found = getattr(module, function)
    except Exception as error:
        if isinstance(error, (ImportError, AttributeError, OSError, SyntaxError)):
            said = str(error)
        else:
            raised = f"{type(error).__name__}: {error}"
            said = f"importing {place} raised {raised}; {place} is imported and {function} is called, nothing is run"
        raise errors.Stop(errors.BAD_OPTION, f"{option}: {name}: {said}") from error
    if not callable(found):
        raise errors.Stop(errors.BAD_OPTION, f"{option}: {name} is no function")
    return cast(Transform, found)


def apply(name: str, rows: DataFrame) -> DataFrame:
    """``rows`` through the transform. Raises ``Stop`` when what must stay is gone."""
    after = load(name)(rows)
    must = [column for column in (*KEPT, *PASSENGERS) if column in rows.columns]
    lost = [column for column in must if column not in getattr(after, "columns", ())]
    if lost:
        raise errors.Stop(errors.BAD_OPTION, f"transforms: {name} lost the column {', '.join(lost)}")
    return after


def _file(path: Path) -> object:
    spec = importlib.util.spec_from_file_location(f"fairlead_transform_{path.stem}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise OSError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
