"""The shape of a route manifest: the limits that the API server (by the definition of EdgeRoutes) and the agent keep.

The agent refuses nothing for its shape that the API server takes, so both have every number and pattern from here.
"""

from __future__ import annotations

from typing import Final

ROUTES_MAX: Final = 1024
"""Routes of one manifest."""
TEXT_CHARS_MAX: Final = 65_536
"""Of one route's text."""
PRIORITY_MAX: Final = 9
"""The least urgent priority that can be written; 0 goes first."""
DEFAULT_PRIORITY: Final = 2_000_000_000
"""What a route without a priority has: after all that can be written, and so never written itself."""
TTL_SECONDS_MAX: Final = 4_294_967_295
SCHEMA_MINOR_MAX: Final = 3
TEXT_FORM_MINOR: Final = 0
"""Under 1.0 every route is text; the object form came with 1.1."""

OBJECT_VERSION: Final = rf"1\.[1-{SCHEMA_MINOR_MAX}](\.[0-9]{{1,9}}){{0,2}}"
"""Of an EdgeRoutes object; a file may say 1.0 as well."""
OBJECT_VERSIONS: Final = f"1.1 to 1.{SCHEMA_MINOR_MAX}"
"""The same for people."""
VERSIONS: Final = f"{OBJECT_VERSIONS} are known, and in a file 1.0"
VERSION_CHARS_MAX: Final = 32
TOPIC: Final = r"[A-Za-z0-9_-]+/[A-Za-z0-9_-]+"
NOT_BLANK: Final = r"[^\t\n\v\f\r ]"
"""Found in a text that says something."""
ROUTE_KEYS: Final = ("route", "priority", "timeToLiveSecs", "topic")
