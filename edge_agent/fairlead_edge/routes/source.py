"""Where a message comes from, and which patterns take it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fairlead_edge import ascii_case

TWIN_CHANGES: Final = "/twinChangeNotifications"
TELEMETRY: Final = "/messages"


@dataclass(frozen=True, slots=True)
class SourcePattern:
    """The source of a route.

    Stars and slashes at its end are dropped, one slash is added to both sides, and a message's source matches if it
    begins with the pattern, in any case.  So a star means something only at the end, and `/messages` takes
    `/messages/modules/m` too but `/message` takes nothing.
    """

    text: str

    @property
    def prefix(self) -> str:
        """What a source must begin with, in lower case."""
        return ascii_case.folded(self.text.rstrip("*/")) + "/"

    def matches(self, source: str) -> bool:
        """Does a message with this source take the route?"""
        return ascii_case.folded(f"{source}/").startswith(self.prefix)

    @property
    def twin_changes(self) -> bool:
        """Only changes of a twin come from here, so their functions may be used."""
        return self.prefix == ascii_case.folded(TWIN_CHANGES) + "/"
