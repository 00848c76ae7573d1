"""Wakes long-polling readers when their topic got something new."""

from __future__ import annotations

import asyncio

Name = tuple[str, str]


class Notifier:
    """Readers ask for a future *before* they look, so nothing can slip between looking and waiting."""

    def __init__(self) -> None:
        self._waiting: dict[Name, set[asyncio.Future[None]]] = {}

    def subscribe(self, name: Name) -> asyncio.Future[None]:
        """Done at the next ring of this topic; cancel it when no longer needed."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(name, set()).add(future)
        future.add_done_callback(lambda done: self._leave(name, done))
        return future

    def notify(self, names: set[Name]) -> None:
        for name in names:
            for future in tuple(self._waiting.get(name, ())):
                if not future.done():
                    future.set_result(None)

    def notify_all(self) -> None:
        self.notify(set(self._waiting))

    @property
    def waiting(self) -> int:
        return sum(len(futures) for futures in self._waiting.values())

    def _leave(self, name: Name, future: asyncio.Future[None]) -> None:
        waiting = self._waiting.get(name)
        if waiting is not None:
            waiting.discard(future)
            if not waiting:
                del self._waiting[name]
