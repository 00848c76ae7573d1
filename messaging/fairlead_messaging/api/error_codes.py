"""Every error code the messaging service can answer with, its HTTP status and its meaning.

    {"error": {"code": "expired", "message": "…", "oldest": "…", "expired": 3, "exact": true}}

Code and status are part of the contract; the message is for people.  ``FACTS`` lists the other fields.
"""

from __future__ import annotations

from typing import Any

import msgspec

from fairlead_messaging.api.verbs import Verb

TOPIC_NOT_FOUND = "topic_not_found"
TOPIC_EXISTS = "topic_exists"
SUBSCRIPTION_NOT_FOUND = "subscription_not_found"
NOT_IN_PROGRESS = "transaction_not_in_progress"
TRANSACTION_CONFLICT = "transaction_conflict"
FENCED = "fenced"
EXPIRED = "expired"
GENERATION_CHANGED = "generation_changed"
STORED_ALREADY = "stored_already"
STORED_UNPUBLISHED = "stored_unpublished"
TRANSACTIONS_UNAVAILABLE = "transactions_unavailable"

MEANINGS: dict[str, tuple[int, str]] = {
    "bad_request": (400, "The request is invalid."),
    "bad_body": (400, "The body does not match the schema of this call."),
    "bad_query": (400, "A query parameter is unknown or invalid."),
    "bad_content_type": (400, "This call does not accept that content type."),
    "bad_name": (400, "A name has 1 to 200 letters, digits, _ and -."),
    "bad_message_id": (400, "A message id has 40 hex digits."),
    "bad_ttl": (400, "A time to live is 1 to 2147483647 seconds."),
    "bad_properties": (400, "Properties map names to texts and numbers."),
    "bad_producer": (400, "Id, epoch, sequences and messages do not match."),
    "bad_start": (400, "The start is not a time since 1970."),
    "bad_limit": (400, "A limit is a positive whole number."),
    "bad_splits": (400, "The number of ranges is 1 to 1024."),
    "bad_wait": (400, "A wait is not negative."),
    "bad_ts": (400, "ts is milliseconds since 1970, earliest or latest."),
    "bad_timeout": (400, "A timeout is more than 0 and at most timeout_seconds_max; a renewal extends it."),
    "bad_changes": (400, "There are too many keys, or one is too long."),
    "bad_pointer": (400, "A transaction write pointer is a whole number."),
    "bad_transaction": (400, "This is not a snapshot of a transaction."),
    "bad_store": (400, "A store needs a transaction and messages, and no producer."),
    "bad_rollback": (400, "This is not the answer to a publish to this topic."),
    "bad_subscription": (400, "The URL, delivery policy or dead letter topic cannot be used."),
    "too_many_subscriptions": (400, "The service has reached its limit of subscriptions."),
    "no_messages": (400, "Without a transaction there must be messages."),
    "producer_in_transaction": (400, "A producer and a transaction cannot be combined."),
    STORED_ALREADY: (400, "Payloads were stored under this transaction for this topic; publish them without messages."),
    "too_scattered": (400, "The sequences of the request are too far apart; send them in several requests."),
    "transaction_required": (400, "This topic accepts only transactional messages."),
    "transaction_refused": (400, "This topic does not accept transactional messages."),
    "unauthenticated": (401, "Neither a certificate nor a token identifies the caller, or the token is not valid."),
    "forbidden": (403, "The caller lacks permission: no access entry grants it `verb` on `topic`."),
    "not_found": (404, "The resource does not exist."),
    "no_such_path": (404, "There is no such path."),
    TOPIC_NOT_FOUND: (404, "There is no such topic."),
    SUBSCRIPTION_NOT_FOUND: (404, "There is no such subscription."),
    "method_not_allowed": (405, "The path does not support this method; Allow lists those it does."),
    "body_too_slow": (408, "The body did not arrive in time."),
    "conflict": (409, "The resource is in a state that does not allow this."),
    TOPIC_EXISTS: (409, "The topic exists; its properties stay as they are."),
    FENCED: (409, "A newer epoch of this producer fenced the older ones."),
    NOT_IN_PROGRESS: (409, "The transaction is committed, aborted, invalid or unknown."),
    TRANSACTION_CONFLICT: (409, "Another transaction that changed the same keys committed first; this one is aborted."),
    STORED_UNPUBLISHED: (
        409,
        "Payloads were stored under this transaction and not published; publish without messages, or abort.",
    ),
    GENERATION_CHANGED: (409, "The topic was deleted and created again."),
    "subscription_changed": (409, "The subscription was replaced meanwhile."),
    EXPIRED: (410, "Messages after this start have expired."),
    "body_too_large": (413, "The body is larger than the service accepts."),
    "too_large": (413, "A size limit was exceeded."),
    "too_many_messages": (413, "The messages need more memory than there is; send them in several requests."),
    "quota_bytes_per_second": (
        429,
        "The namespace has used up its bytes per second; Retry-After says when to try again.",
    ),
    "quota_topics": (429, "The namespace has as many topics as its quota allows."),
    "quota_stored_bytes": (429, "The namespace holds as many bytes as its quota allows, until messages expire."),
    "internal": (500, "The service had an internal error."),
    "http_error": (500, "The request is not valid HTTP."),
    "unavailable": (503, "The service is not available at the moment; nothing was done."),
    "overloaded": (503, "Too many writes are waiting; nothing was begun."),
    "storage_failed": (503, "The store could not be read or written; a write may have taken place."),
    "rolling_back": (503, "A rollback of this transaction is being carried out."),
    TRANSACTIONS_UNAVAILABLE: (
        503,
        "The transaction tables cannot be read. Calls that need no transactions still work; nothing was begun.",
    ),
    "too_many_transactions": (503, "The service, or this subject, has reached its limit of open transactions."),
    "too_many_bodies": (503, "All request bodies together exceed the limit."),
    "too_many_pages": (503, "All pages being sent to readers exceed the limit."),
    "too_many_backups": (503, "Another backup is already running."),
    "too_many_long_polls": (503, "The limit of waiting readers is reached."),
    "too_many_connections": (503, "The limit of open connections is reached."),
    "token_review_unavailable": (503, "The Kubernetes API cannot review the token at the moment."),
}

EVERYWHERE = (
    "unauthenticated", "forbidden", "internal", "http_error", "unavailable", "overloaded", "storage_failed",
    "too_many_connections", "no_such_path", "method_not_allowed", "token_review_unavailable",
)  # fmt: skip
"""Codes with which any call may be answered."""
WITH_A_BODY = ("bad_body", "body_too_slow", "body_too_large", "too_many_bodies")
"""Codes with which any call that has a body may be answered."""

NOTHING_DONE = frozenset({
    "overloaded", "unavailable", "too_many_transactions", "rolling_back", "too_many_connections",
    TRANSACTIONS_UNAVAILABLE, "token_review_unavailable",
})  # fmt: skip
"""Codes that mean that the service did nothing; ``storage_failed`` is not one of them."""

FACTS: dict[str, dict[str, Any]] = {
    "forbidden": {
        "verb": {"type": "string", "enum": [str(each) for each in Verb]},
        "topic": {"type": "string", "description": "namespace/name."},
    },
    EXPIRED: {
        "oldest": {"type": "string", "description": "Exclusive start that yields all messages that are left (hex)."},
        "expired": {"type": "integer", "description": "How many messages were missed."},
        "exact": {"type": "boolean", "description": "Whether `expired` is exact; otherwise it is an upper bound."},
    },
    GENERATION_CHANGED: {"generation": {"type": "integer", "description": "The current generation."}},
    NOT_IN_PROGRESS: {
        "state": {"type": "string", "enum": ["committed", "aborted", "invalid", "unknown"]},
        "ended_by": {
            "type": "string",
            "enum": ["timeout", "lifetime", "hold_up", "invalidate", "conflict"],
            "description": "Why it did not commit, if the client did not abort it.",
        },
    },
    TRANSACTION_CONFLICT: {"state": {"type": "string", "enum": ["aborted"]}},
    STORED_UNPUBLISHED: {
        "state": {"type": "string", "enum": ["in_progress"]},
        "topics": {"type": "array", "items": {"type": "string"}, "description": "The topics with stored payloads."},
    },
}
"""The fields of an error besides code and message, as JSON Schema."""


class ErrorAnswer(msgspec.Struct, frozen=True):
    """The body of every answer with a status from 400 on: ``code``, ``message`` and facts."""

    error: dict[str, Any]
