"""Names of the headers the messaging service answers with.  Header names are read without regard to case."""

from __future__ import annotations

NEXT_POSITION = "Fairlead-Next-Position"
"""Exclusive start of the next page, in hex."""
GENERATION = "Fairlead-Generation"
STABLE_POSITION = "Fairlead-Stable-Position"
OLDEST_POSITION = "Fairlead-Oldest-Position"
SERVICE = "Fairlead-Service"
FIRST_POSITION = "Fairlead-First-Position"
NEWEST_POSITION = "Fairlead-Newest-Position"
HIDDEN_MESSAGES = "Fairlead-Hidden-Messages"
EXPIRED_MESSAGES = "Fairlead-Expired-Messages"
RETRY_AFTER = "Retry-After"

MEANINGS = {
    NEXT_POSITION: "Exclusive start of the next page (hex), also of an empty one.",
    GENERATION: "Generation of the topic.",
    STABLE_POSITION: "Up to here nothing changes any more for this reader (hex).",
    OLDEST_POSITION: "Exclusive start that yields all that live (hex).",
    SERVICE: "Id of the data directory that answered.",
    FIRST_POSITION: "Of the first message stored by this call (hex); the others follow, each one further.",
    NEWEST_POSITION: "The topic's newest (hex): what was known before is here or before.",
    HIDDEN_MESSAGES: "Rolled-back and aborted messages the page passed over.",
    EXPIRED_MESSAGES: "Messages past their own time to live the page passed over.",
    RETRY_AFTER: "Seconds to wait before asking again.",
}

JSON = "application/json"
AVRO = "avro/binary"
ARROW = "application/vnd.apache.arrow.stream"
BACKUP = "application/vnd.fairlead.backup"
