"""A life in this process that ends at a chosen step, by an exception that nothing catches, before the call."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest


class Killed(BaseException):
    """The process ends here."""


class Steps:
    """Counts these calls, each named by owner and attribute, and ends the life before one of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, calls: Iterable[tuple[Any, str]]) -> None:
        self._left = 0
        for owner, name in calls:
            monkeypatch.setattr(owner, name, self._counted(getattr(owner, name)))

    def end_at(self, number: int) -> None:
        """End before the call of this number, counted from 1 and from now; 0: never."""
        self._left = number

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **named: Any) -> Any:
            self._left -= 1
            if self._left == 0:
                raise Killed
            return call(*arguments, **named)

        return counted
