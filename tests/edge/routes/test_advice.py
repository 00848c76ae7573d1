"""What compiles but is hardly meant."""

from __future__ import annotations

import pytest

from fairlead_edge.routes.compiler import compile_route
from fairlead_edge.routes.explain import advise


@pytest.mark.parametrize(
    ("route", "column", "said"),
    [
        ("FROM /messages/modules/*/outputs/o INTO $upstream", 6, "a * counts only at the end"),
        ("FROM /message/* INTO $upstream", 6, "no message comes from here"),
        ("FROM /* WHERE a||b = 'x' INTO $upstream", 15, "a||b is one name; put blanks around ||"),
        ("FROM /* WHERE length(qty-1) = 3 INTO $upstream", 22, "qty-1 is one name; put blanks around -"),
        ("FROM /* WHERE x = 'a' AND NOT is_defined(a*2) INTO $upstream", 42, "put blanks around *"),
        ("FROM /* WHERE is_defined(-x) INTO $upstream", 26, "put blanks around -"),
    ],
)
def test_advice(route: str, column: int, said: str) -> None:
    """The place, and what to do about it."""
    (advice,) = advise(compile_route(route))
    assert (advice.line, advice.column) == (1, column)
    assert said in advice.message


@pytest.mark.parametrize(
    "route",
    [
        "FROM /* INTO $upstream",
        "FROM /messages INTO $upstream",
        "FROM /TwinChangeNotifications/* WHERE twin_change_includes(tags.a-b) INTO $upstream",
        "FROM /messages/modules/m/* WHERE iothub-connection-device = 'a-1' AND $body.a > 2 - 1 INTO $upstream",
    ],
)
def test_nothing_to_say(route: str) -> None:
    """Names with a dash between letters are common."""
    assert advise(compile_route(route)) == []
