"""A route that stands twice in a manifest's text."""

from __future__ import annotations

import pytest

from fairlead_edge.outbox import manifest

OLD, NEW = '"FROM /messages/* INTO $upstream"', '{"route": "FROM /messages/* INTO $upstream", "priority": 3}'


@pytest.mark.parametrize(
    ("first", "second", "priority"), [(OLD, NEW, 3), (NEW, OLD, 3), (NEW, NEW.replace("3", "4"), 4)]
)
def test_the_new_format_counts_wherever_it_stands(first: str, second: str, priority: int) -> None:
    """Of two in one format the last, as JSON is read everywhere."""
    text = (
        f'{{"schemaVersion": "1.1", "routes": {{"r": {first}, "r": {second}}}, "storeAndForwardConfiguration": {{}}}}'
    )
    [route] = manifest.parse(text.encode()).routes
    assert route.priority == priority


@pytest.mark.parametrize("raw", [b"{", b'{"a": NaN}', b"\xff", b'{"a": 1} x'])
def test_what_is_no_json_is_refused(raw: bytes) -> None:
    """As strictly as everything else that comes in."""
    with pytest.raises(ValueError):
        manifest.decode(raw)
