"""Limits of a route manifest, enforced by the API server (in the EdgeRoutes definition) and by the agent.

Both take every number and pattern from here, so that the agent accepts every manifest that the API server accepts.
"""

from __future__ import annotations

from typing import Final

ROUTES_MAX: Final = 1024
"""Most routes in one manifest."""
TEXT_CHARS_MAX: Final = 65_536
"""Longest text of one route."""
PRIORITY_MAX: Final = 9
"""The least urgent priority that a route can set; 0 is the most urgent."""
DEFAULT_PRIORITY: Final = 2_000_000_000
"""Priority of a route that sets none: after all others."""
DEFAULT_PRIORITY_SHOWN: Final = "default"
TTL_SECONDS_MAX: Final = 4_294_967_295
SCHEMA_MINOR_MAX: Final = 3
TEXT_FORM_MINOR: Final = 0
"""In version 1.0 every route is a text; 1.1 added the object form."""

SPEC_KEYS: Final = ("nodeSelector", "schemaVersion", "routes", "storeAndForwardConfiguration")
"""Fields of the spec of an EdgeRoutes object: the API server refuses others."""
SELECTOR_KEYS: Final = ("matchLabels", "matchExpressions")
"""Fields of its nodeSelector."""

OBJECT_VERSION: Final = rf"1\.[1-{SCHEMA_MINOR_MAX}](\.[0-9]{{1,9}}){{0,2}}"
"""Schema versions of an EdgeRoutes object; a file may also have 1.0."""
OBJECT_VERSIONS: Final = f"1.1 to 1.{SCHEMA_MINOR_MAX}"
"""The same range, for messages."""
VERSIONS: Final = f"{OBJECT_VERSIONS} are known, and in a file 1.0"
VERSION_CHARS_MAX: Final = 32
TOPIC: Final = r"[A-Za-z0-9_-]+/[A-Za-z0-9_-]+"
NOT_BLANK: Final = r"[^\t\n\v\f\r ]"
"""Matches in any text that is not blank."""
ROUTE_KEYS: Final = ("route", "priority", "timeToLiveSecs", "topic")


def priority_shown(priority: int) -> int | str:
    """A priority for people: that of routes that name none is a number above all that can be named."""
    return DEFAULT_PRIORITY_SHOWN if priority == DEFAULT_PRIORITY else priority
