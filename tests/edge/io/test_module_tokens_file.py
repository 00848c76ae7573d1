"""The tokens file as it changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead_edge.io.module_tokens_file import ModuleTokensFile
from fairlead_edge.io.mqtt import listener
from fairlead_edge.module_tokens import BadTokens, line


def test_changed_file_counts_and_a_bad_one_does_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "modules"
    path.write_text(line("filter", "one"))
    path.chmod(0o600)
    file = ModuleTokensFile(path)
    assert file.read_tokens().module_of("one") == "filter"
    path.write_text(line("filter", "two") + "\n" + line("pump", "three"))
    file.reload()
    assert [file.read_tokens().module_of(shown) for shown in ("one", "two", "three")] == ["", "filter", "pump"]
    for spoil in (lambda: path.write_text("nonsense here"), lambda: path.chmod(0o622), path.unlink):
        spoil()
        file.reload()
        assert file.read_tokens().module_of("two") == "filter"
    path.write_text(line("filter", "four"))
    path.chmod(0o600)
    file.reload()
    assert file.read_tokens().module_of("four") == "filter"


def test_a_file_of_both_settings_is_read_once(tmp_path: Path) -> None:
    """Two readers would log each of its mistakes twice."""
    path, other = tmp_path / "modules", tmp_path / "mqtt"
    for each in (path, other):
        each.write_text(line("filter", "one"))
        each.chmod(0o600)
    modules = ModuleTokensFile(path)
    assert listener.own_tokens(str(path), modules) is None and listener.own_tokens(None, modules) is None
    assert listener.own_tokens(str(other), modules) is not None and listener.own_tokens(str(path), None) is not None


@pytest.mark.parametrize("content", [None, b"filter", b"\xff\xfe"])
def test_unusable_file_at_the_start_is_named(tmp_path: Path, content: bytes | None) -> None:
    """The agent does not start as if modules had no names."""
    path = tmp_path / "modules"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BadTokens, match=str(path)):
        ModuleTokensFile(path)
