"""What programs import from the package, and what that draws in."""

from __future__ import annotations

import subprocess
import sys

import pytest

import fairlead_messaging

HEAVY = (
    "rocksdict", "fastavro", "pyarrow", "pandas", "prometheus_client", "kubernetes", "zstandard",
    "fairlead_messaging.server",
)  # fmt: skip


def imported_by(name: str) -> set[str]:
    """Every module a new process has after importing this one name."""
    code = f"import sys; from fairlead_messaging import {name}; print(*sys.modules)"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


def test_each_name_is_there() -> None:
    assert set(fairlead_messaging.__all__) <= set(dir(fairlead_messaging))
    for name in fairlead_messaging.__all__:
        assert getattr(fairlead_messaging, name) is not None
    assert fairlead_messaging.errors.__name__ == "fairlead_messaging.client.errors"
    with pytest.raises(AttributeError, match="MessagingClient"):
        fairlead_messaging.MessagingClient  # noqa: B018


@pytest.mark.process
@pytest.mark.parametrize("name", fairlead_messaging.__all__)
def test_a_client_draws_in_nothing_of_the_service(name: str) -> None:
    """The extra ``client`` has no RocksDB, no Avro, no pyarrow, no zstandard; without asyncio no aiohttp."""
    found = imported_by(name)
    assert [module for module in HEAVY if module in found] == []
    if name != "AsyncClient":
        assert "aiohttp" not in found
