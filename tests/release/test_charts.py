"""The charts' archives: the same bytes each time, and the project's one version in them."""

from __future__ import annotations

import dataclasses
import tarfile
from pathlib import Path

import pytest

from release import charts, source

pytestmark = pytest.mark.process


def test_same_bytes_and_helms_layout(tmp_path: Path) -> None:
    found = source.read()
    first, second = charts.build(found, tmp_path / "a"), charts.build(found, tmp_path / "b")
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    with tarfile.open(first[0]) as tar:
        names = tar.getnames()
    assert {"fairlead/Chart.yaml", "fairlead/values.yaml", "fairlead/values.schema.json"} <= set(names)
    assert any(name.startswith("fairlead/crds/") for name in names)


def test_another_version_in_a_chart_is_refused(tmp_path: Path) -> None:
    """One version for everything: a chart that was forgotten ends the build."""
    found = dataclasses.replace(source.read(), version="9.9.9")
    with pytest.raises(source.ReleaseError, match=r"charts/fairlead/Chart.yaml: version is .* says 9.9.9"):
        charts.build(found, tmp_path)
