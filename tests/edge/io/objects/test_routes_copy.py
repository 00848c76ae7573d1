"""The copy of the routes: whole, or nothing."""

from __future__ import annotations

from pathlib import Path

from tests.support.edges.held import config_map, held

from fairlead_edge.io.objects.routes_copy import RoutesCopy


def test_what_was_written_last_is_read(tmp_path: Path) -> None:
    """Byte for byte; nothing of it once any of it is damaged."""
    copy = RoutesCopy(tmp_path / "routes.copy")
    assert copy.read() == []
    objects = [held(config_map(name)) for name in ("a", "b")]
    copy.write(objects[:1])
    copy.write(objects)
    assert RoutesCopy(tmp_path / "routes.copy").read() == objects
    content = (tmp_path / "routes.copy").read_bytes()
    for at in range(0, len(content), 7):
        (tmp_path / "routes.copy").write_bytes(content[:at] + bytes([content[at] ^ 2]) + content[at + 1 :])
        assert copy.read() == []


def test_no_room_is_no_error(tmp_path: Path) -> None:
    """It stays as it was."""
    RoutesCopy(tmp_path / "missing" / "routes.copy").write([])
