"""When a batch that takes long is worth a line in the log: each ten seconds, with how long it has been at work."""

from __future__ import annotations

LINE_SECONDS = 10.0


class ProgressLog:
    """Of one pipeline; ask ``due`` often, it answers rarely."""

    def __init__(self, every_seconds: float = LINE_SECONDS) -> None:
        self._every_seconds = every_seconds
        self._batch: int | None = None
        self._since = self._logged = 0.0

    def due(self, now: float, *, batch: int, at_work: bool) -> float | None:
        """Seconds the batch has been at work, when it is time to say so; None otherwise."""
        if not at_work or batch != self._batch:
            self._batch = batch if at_work else None
            self._since = self._logged = now
            return None
        if now - self._logged < self._every_seconds:
            return None
        self._logged = now
        return now - self._since
