"""Where a route leads: upstream, or an input of a module on the same node."""

from __future__ import annotations

from dataclasses import dataclass

UPSTREAM = "iothub"
"""The endpoint id of ``$upstream``."""
UPSTREAM_TEXT = "$upstream"
BROKERED_TEXT = "BrokeredEndpoint"
_BROKERED_SEGMENTS = 4


@dataclass(frozen=True, slots=True)
class Sink:
    """`$upstream` when module and input are empty."""

    module: str = ""
    input: str = ""

    def endpoint(self, node: str) -> str:
        """The endpoint id: `iothub` for upstream, `<node>/<module>/<input>` for a module's input."""
        return f"{node}/{self.module}/{self.input}" if self.module else UPSTREAM


def brokered(address: str) -> Sink:
    """The sink of `BrokeredEndpoint("/modules/<module>/inputs/<input>")`.  Raises `ValueError` with the reason.

    One slash at either end may be there or not; the first and third segment may be any word, as in the original.
    """
    segments = address.removeprefix("/").removesuffix("/").split("/")
    if len(segments) != _BROKERED_SEGMENTS or not all(segments):
        raise ValueError(f"expected /modules/<module>/inputs/<input>, not {address!r}")
    return Sink(module=segments[1], input=segments[3])
