"""Every generated page of the reference, written anew: `make docs`, or

    .venv/bin/python -m docs.reference.generated      # says which files it changed

Each module named ``*_tables.py`` yields files and what should stand in them.  A test fails while one of them differs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from docs.reference import (
    cli_tables,
    crd_tables,
    event_tables,
    messaging_tables,
    metrics_tables,
    openapi_tables,
    settings_tables,
)

ROOT = Path(__file__).resolve().parents[2]
REMEDY = "run `make docs`, look at the difference, and commit it"


def wanted() -> Iterator[tuple[Path, str]]:
    """Each file and its text."""
    yield messaging_tables.PAGE, messaging_tables.page()
    for name in settings_tables.PAGES:
        yield settings_tables.path(name), settings_tables.page(name)
    yield from openapi_tables.wanted()
    for module in (cli_tables, crd_tables, event_tables, metrics_tables):
        yield from module.wanted()


def write() -> list[Path]:
    """Write what differs; returns these files."""
    changed = [(path, text) for path, text in wanted() if not path.exists() or path.read_text() != text]
    for path, text in changed:
        path.write_text(text)
    return [path for path, _ in changed]


def main() -> None:
    for path in write():
        print(f"written: {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
