"""Names of headers in the answers of the messaging service; they are case-insensitive."""

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
    NEXT_POSITION: "Exclusive start of the next page (hex), even after an empty page.",
    GENERATION: "Generation of the topic.",
    STABLE_POSITION: "Position up to which nothing can change any more for this reader (hex).",
    OLDEST_POSITION: "Exclusive start that yields all messages that are left (hex).",
    SERVICE: "Id of the data directory that answered.",
    FIRST_POSITION: "Position of the first message that this call stored (hex); the others follow consecutively.",
    NEWEST_POSITION: "Newest position of the topic (hex); messages stored by an earlier call are not after it.",
    HIDDEN_MESSAGES: "How many rolled-back and aborted messages the page skipped.",
    EXPIRED_MESSAGES: "How many messages with an own time to live had expired, so that the page skipped them.",
    RETRY_AFTER: "Seconds to wait before trying again.",
}

JSON = "application/json"
AVRO = "avro/binary"
ARROW = "application/vnd.apache.arrow.stream"
BACKUP = "application/vnd.fairlead.backup"
