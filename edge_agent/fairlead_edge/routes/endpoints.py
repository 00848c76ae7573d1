"""Both ends of a route: the source a message comes from, with the patterns that match it, and the sink it goes to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fairlead_edge import ascii_case

TWIN_CHANGES: Final = "/twinChangeNotifications"
TELEMETRY: Final = "/messages"


@dataclass(frozen=True, slots=True)
class SourcePattern:
    """The source of a route.

    Trailing stars and slashes are dropped, one slash is added on both sides, and a message's source matches if it
    begins with the pattern, ignoring case.  So a star has a meaning only at the end, and `/messages` also matches
    `/messages/modules/m`, but `/message` matches nothing.
    """

    text: str

    @property
    def prefix(self) -> str:
        """What a source must begin with, in lower case."""
        return ascii_case.folded(self.text.rstrip("*/")) + "/"

    def matches(self, source: str) -> bool:
        """Whether the route matches this source."""
        return ascii_case.folded(f"{source}/").startswith(self.prefix)

    @property
    def twin_changes(self) -> bool:
        """Whether only twin changes come from here, so that their functions may be used."""
        return self.prefix == ascii_case.folded(TWIN_CHANGES) + "/"


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

    A slash at either end is optional; the first and third segment may be any word, as in the original.
    """
    segments = address.removeprefix("/").removesuffix("/").split("/")
    if len(segments) != _BROKERED_SEGMENTS or not all(segments):
        raise ValueError(f"expected /modules/<module>/inputs/<input>, not {address!r}")
    return Sink(module=segments[1], input=segments[3])
