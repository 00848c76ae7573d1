"""The kernel answers without any right."""

from __future__ import annotations

from fairlead_cli.doctor.device import clock


def test_it_answers() -> None:
    """What, depends on the machine."""
    assert clock.synchronised() in (True, False, None)
