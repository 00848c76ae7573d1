"""The errors of the service, classified by what the caller can do next.

``Refused`` is permanent: the same request will be refused again.  ``Unavailable`` says how many seconds to wait before
trying again.  ``code`` is the machine-readable word in the JSON body of an error.
"""

from __future__ import annotations

from typing import Any

from fairlead_wire.errors import FairleadError


class MessagingError(FairleadError):
    """The base of every error of the service; ``code``, ``message`` and ``facts`` go to the caller."""

    status = 500
    code = "internal"

    def __init__(self, message: str, *, code: str | None = None, **facts: Any) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or type(self).code
        self.facts = facts


class Refused(MessagingError):
    """Permanent: the request is invalid (400)."""

    status = 400
    code = "bad_request"


class Forbidden(Refused):
    """Permanent: the caller lacks permission (403)."""

    status = 403
    code = "forbidden"


class Unauthenticated(Refused):
    """The caller is not identified (401): neither by a certificate nor by a token."""

    status = 401
    code = "unauthenticated"


class CertificateEnded(Unauthenticated):
    """The certificate of the connection has expired meanwhile; a new connection presents the renewed one."""


class NotFound(Refused):
    """The resource does not exist; permanent until it is created (404)."""

    status = 404
    code = "not_found"


class Conflict(Refused):
    """The resource is in a state that does not allow this (409); ``facts`` say which."""

    status = 409
    code = "conflict"


class Gone(Refused):
    """The requested messages have expired (410)."""

    status = 410
    code = "expired"


class TooSlow(Refused):
    """A body did not arrive in time (408)."""

    status = 408
    code = "body_too_slow"


class BodyTooLarge(Refused):
    """A size limit was exceeded (413)."""

    status = 413
    code = "too_large"


class Unavailable(MessagingError):
    """Try again after ``retry_after_seconds`` (503)."""

    status = 503
    code = "unavailable"

    def __init__(
        self, message: str, *, retry_after_seconds: float = 1.0, code: str | None = None, **facts: Any
    ) -> None:
        super().__init__(message, code=code, **facts)
        self.retry_after_seconds = retry_after_seconds


class OverQuota(Unavailable):
    """A quota of the namespace is used up for now (429); nothing was begun."""

    status = 429
    code = "quota_bytes_per_second"


class StorageError(FairleadError):
    """A store failed to read or write; only another read shows whether a write took place."""
