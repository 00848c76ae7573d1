"""Small values that were read or written lately: asked for again and again, and never by a round trip."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

from fairlead_messaging.server.store.layer import SILENT, Layer, Silent

KEYS_MAX: Final = 16_384
VALUE_BYTES_MAX: Final = 4096


class RecentValues:
    """Of the newest state: every batch is applied to it when it is durable."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: OrderedDict[bytes, bytes | None] = OrderedDict()
        self._number = 0

    def get(self, key: bytes) -> tuple[bytes | Silent | None, int]:
        """The value, or SILENT; and the number of the last batch, for ``keep``."""
        with self._lock:
            if key not in self._values:
                return SILENT, self._number
            self._values.move_to_end(key)
            return self._values[key], self._number

    def keep(self, key: bytes, value: bytes | None, number: int) -> None:
        """What was read, unless a batch came between."""
        with self._lock:
            if number == self._number and (value is None or len(value) <= VALUE_BYTES_MAX):
                self._values[key] = value
                while len(self._values) > KEYS_MAX:
                    self._values.popitem(last=False)

    def apply(self, layer: Layer) -> None:
        with self._lock:
            self._number = layer.number
            if layer.ranges:
                for key in [key for key in self._values if layer.empties(key)]:
                    del self._values[key]
            for key in self._values.keys() & layer.points.keys():
                value = layer.points[key]
                if value is None or len(value) <= VALUE_BYTES_MAX:
                    self._values[key] = value
                else:
                    del self._values[key]

    def clear(self, number: int) -> None:
        with self._lock:
            self._values.clear()
            self._number = number
