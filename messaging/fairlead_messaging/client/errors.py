"""Errors of the clients, named by what the caller can do next.

Temporary                     try again later; ``in_doubt``: the service may have carried the request out
  Unreachable                 the request was not sent: no connection, no TLS; in doubt only if an earlier attempt was
  NoAnswer                    it was sent and no answer came: in doubt
    TimedOut                  … within the time a request may take
    Disconnected              … because the connection ended
  Busy                        the service (or a proxy in front of it) answered "not now"
Permanent                     the same request will be refused again; has ``code``, ``status`` and ``facts``
  Denied                      every refusal of the service:
    TopicMissing, TopicExists, Expired, GenerationChanged, TransactionOver (TransactionLost: although it was renewed),
    TransactionConflict, StoredAlready, StoredUnpublished, Fenced, NotAllowed, TooLarge
RemoteError                   the answer does not come from the messaging service, or is malformed
InDoubt                       a commit was sent and no answer says whether it happened
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from fairlead_messaging.api import error_codes
from fairlead_messaging.api.error_codes import ErrorAnswer
from fairlead_wire.backoff import retry_after_seconds
from fairlead_wire.errors import FairleadError, Malformed, Permanent, Temporary
from fairlead_wire.link import peer_json

RETRY_AFTER_SECONDS_DEFAULT = 1.0
RETRY_AFTER_SECONDS_MAX = 3600.0
"""The longest wait a client accepts from a Retry-After header."""
SHOWN_BYTES_MAX = 200
FOREIGN = "this is not the messaging service; check the address"

RETRYABLE_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})


class Failed(Temporary):
    """The attempt failed.  ``in_doubt``: it may have taken effect although no proper answer came."""

    in_doubt = False
    answered = False
    """Whether the service answered and ``retry_after_seconds`` is the wait it requested."""

    def __init__(self, message: str, *, retry_after_seconds: float | None = RETRY_AFTER_SECONDS_DEFAULT) -> None:
        super().__init__(message, retry_after_seconds=retry_after_seconds)


class Unreachable(Failed):
    """No connection; this attempt was not sent."""


class NoAnswer(Failed):
    """Sent, but no answer came: a publish with a producer may be repeated, one without might be stored twice."""

    in_doubt = True


class TimedOut(NoAnswer):
    """No answer within ``seconds``."""

    def __init__(self, message: str, *, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


class Disconnected(NoAnswer):
    """The connection ended before the answer, as an idle connection to a restarted service does."""


class Busy(Failed):
    """Answered "not now", with the service's ``code`` and the wait it requests."""

    answered = True

    reason = ""
    """The message of the service."""

    def __init__(self, message: str, *, code: str, status: int, retry_after_seconds: float | None) -> None:
        super().__init__(message, retry_after_seconds=retry_after_seconds)
        self.code = code
        self.status = status
        self.in_doubt = status != 429 and code not in error_codes.NOTHING_DONE


class Denied(Permanent):
    """Refused with a reason; ``facts`` are the fields of the answer beside code and message."""

    reason = ""
    """The message of the service."""

    def __init__(
        self, message: str, *, code: str = "refused", status: int = 0, facts: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message, code=code)
        self.status = status
        self.facts = dict(facts or {})


class TopicMissing(Denied):
    """The topic does not exist, or not yet."""


class TopicExists(Denied):
    """The topic exists already; its properties have not been changed."""


class TransactionOver(Denied):
    """The transaction has ended: ``state`` is committed, aborted, invalid or unknown.

    ``ended_by`` says why it did not commit although the client did not abort it: timeout (not renewed in time),
    lifetime (renewed for as long as is allowed), hold_up (it held up the readers of a topic for too long), invalidate
    or conflict.
    """

    @property
    def state(self) -> str:
        return str(self.facts.get("state", "unknown"))

    @property
    def ended_by(self) -> str:
        return str(self.facts.get("ended_by", ""))


class TransactionLost(TransactionOver):
    """The transaction ended despite its renewals; none of its messages will ever be visible."""


class TransactionConflict(Denied):
    """Another transaction that committed meanwhile changed one of the same keys; this one is aborted."""


class StoredAlready(Denied):
    """The transaction has already stored payloads for this topic: store the others too, then publish no messages."""


class StoredUnpublished(Denied):
    """The open transaction has stored payloads for ``topics`` and not published them."""

    @property
    def topics(self) -> tuple[str, ...]:
        found = self.facts.get("topics", ())
        return tuple(map(str, found)) if isinstance(found, list) else ()


class Fenced(Denied):
    """A newer epoch of this producer fenced this one."""


class NotAllowed(Denied):
    """401 or 403."""


class TooLarge(Denied):
    """413: send less in one request."""


class Expired(Denied):
    """Messages after the requested start have expired; ``rows`` says how many (None: unknown).

    ``oldest`` is an exclusive start that yields all messages that are left.  A start of "" never expires.
    """

    def __init__(self, message: str, *, oldest: str, rows: int | None = None) -> None:
        super().__init__(message, code=error_codes.EXPIRED, status=410)
        self.oldest = oldest
        self.rows = rows


class GenerationChanged(Denied):
    """The topic was deleted and created again; ``generation`` is the current one."""

    def __init__(self, message: str, *, generation: int) -> None:
        super().__init__(message, code=error_codes.GENERATION_CHANGED, status=409)
        self.generation = generation


class InDoubt(FairleadError):
    """A commit was sent and no answer came.  Nothing was rolled back, because the commit may have succeeded.

    ``finish_transaction(pointer, "abort")`` resolves the doubt: if it succeeds, nothing is visible and the
    participants' changes must be undone; ``TransactionOver`` with the state ``committed`` means that all is visible.
    """

    def __init__(self, message: str, *, pointer: int) -> None:
        super().__init__(message)
        self.pointer = pointer


_decoder = msgspec.json.Decoder(ErrorAnswer)
_BY_CODE: dict[str, type[Denied]] = {
    error_codes.TOPIC_NOT_FOUND: TopicMissing,
    error_codes.TOPIC_EXISTS: TopicExists,
    error_codes.NOT_IN_PROGRESS: TransactionOver,
    error_codes.TRANSACTION_CONFLICT: TransactionConflict,
    error_codes.STORED_ALREADY: StoredAlready,
    error_codes.STORED_UNPUBLISHED: StoredUnpublished,
    error_codes.FENCED: Fenced,
}
_BY_STATUS: dict[int, type[Denied]] = {401: NotAllowed, 403: NotAllowed, 413: TooLarge}


def from_response(where: str, status: int, headers: Mapping[str, str], body: bytes, *, url: str = "") -> Busy | Denied:
    """The error for an answer with a status from 300 on.

    ``where`` is the beginning of its message; header names are lower case; ``url``: what was asked, for people.
    """
    try:
        facts = peer_json.decode(_decoder, body).error
    except Malformed:
        facts = {"message": body[:SHOWN_BYTES_MAX].decode(errors="replace")}
    # Any proxy may answer with the usual statuses, and its own text.
    is_foreign = "code" not in facts and status not in RETRYABLE_STATUSES and status not in _BY_STATUS
    if is_foreign:
        facts["message"] = ": ".join(filter(None, (FOREIGN, str(facts.get("message", "")))))
    code, message = str(facts.pop("code", f"http_{status}")), str(facts.pop("message", ""))
    failure = _made(f"{where}: {status} {message or code}", status, headers, code, facts)
    failure.reason = message or f"the service answered {status} {code}"
    if url and is_foreign:
        failure.reason = f"{url} is not the messaging service: it answered {status}; is this its http_listen?"
    return failure


def _made(text: str, status: int, headers: Mapping[str, str], code: str, facts: dict[str, Any]) -> Busy | Denied:
    if status in RETRYABLE_STATUSES:
        return Busy(text, code=code, status=status, retry_after_seconds=_seconds(headers.get("retry-after")))
    oldest, expired, generation = facts.get("oldest"), facts.get("expired"), facts.get("generation")
    if status == 410 and isinstance(oldest, str):
        return Expired(text, oldest=oldest, rows=expired if isinstance(expired, int) else None)
    if code == error_codes.GENERATION_CHANGED and isinstance(generation, int):
        return GenerationChanged(text, generation=generation)
    kind = _BY_CODE.get(code) or _BY_STATUS.get(status, Denied)
    return kind(text, code=code, status=status, facts=facts)


def _seconds(text: str | None) -> float:
    found = retry_after_seconds(text, RETRY_AFTER_SECONDS_MAX)
    return RETRY_AFTER_SECONDS_DEFAULT if found is None else found
