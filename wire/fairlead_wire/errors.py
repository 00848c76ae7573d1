"""Errors named by whose fault they are and what to do next.

FairleadError
  LocalError       our own caller broke the contract: fix the program
  RemoteError      the peer broke it: close the session with the reason
    FrameTooLarge    a frame is over a limit; it was not parsed
    Malformed        bytes that are not a frame, or a frame that is not allowed now
  Temporary        try again, after ``retry_after_seconds``
  Permanent        never try the same thing again
"""

from __future__ import annotations

import os
import re

_NUMBER = re.compile(r"\[Errno -?[0-9]+\] ")
_CONNECT_FAILED = "Connect call failed"
"""asyncio's text, which shows a socket's address as a tuple."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+")


class FairleadError(Exception):
    """Base of all errors that Fairlead raises deliberately; ``str()`` is a sentence for people."""


class LocalError(FairleadError):
    """The caller asked for something the contract forbids; nothing was changed."""


class RemoteError(FairleadError):
    """The peer sent something the contract forbids; close the session and say why."""


class FrameTooLarge(RemoteError):
    """The peer sent more bytes than the limit; they were not parsed."""

    def __init__(self, *, size: int, limit: int) -> None:
        super().__init__(f"frame of {size} bytes is over the limit of {limit}")
        self.size = size
        self.limit = limit


class Malformed(RemoteError):
    """The peer sent bytes that are not a frame, or a frame that is not allowed now."""


class Temporary(FairleadError):
    """The attempt failed; try again after ``retry_after_seconds`` (None: as the caller's own policy says)."""

    def __init__(self, message: str, *, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class Permanent(FairleadError):
    """The same request will always fail; ``code`` is stable, for programs; the text is for people."""

    def __init__(self, message: str, *, code: str = "permanent") -> None:
        super().__init__(message)
        self.code = code


def text_of(error: BaseException) -> str:
    """What it says; of one that says nothing the name of its class in words: ``connection reset``."""
    # aiohttp's own texts show Python objects (``ssl:<ssl.SSLContext …>``); what happened is in their cause.
    cause = getattr(error, "os_error", None) or getattr(error, "certificate_error", None)
    if isinstance(cause, Exception) and cause is not error:
        return text_of(cause)
    if isinstance(error, OSError) and error.errno and _CONNECT_FAILED in str(error):
        return os.strerror(error.errno).lower()
    return _said(str(error)) or _in_words(type(error).__name__)


def cause_of(error: BaseException) -> str:
    """What it says, without the name of the file: for a sentence that begins with it."""
    return getattr(error, "strerror", None) or text_of(error)


def described(error: BaseException, text: str | None = None) -> str:
    """Its class and what it says, or ``text``; in words where that is nothing: a reason is never empty."""
    name = type(error).__name__
    if text is None and isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    said = _said(str(error) if text is None else text)
    return f"{name}: {said}" if said else _in_words(name)


_CONNECTS = re.compile(r"(?:Multiple exceptions: )?\[Errno (\d+)\] Connect call failed \([^)]*\)")
"""What asyncio says of a connection that failed, with a socket's address as a tuple."""
_LIBRARY = re.compile(r"^\[[A-Z0-9_]+(?:: [A-Z0-9_]+)?\] | \(_ssl\.c:\d+\)$")
"""What the TLS library adds to its texts."""


def plain(error: BaseException) -> str:
    """For people: without class, number and place in the library; ``described`` of what is no error of the system."""
    if not isinstance(error, OSError):
        return described(error)
    if verified := getattr(error, "verify_message", ""):
        return f"the certificate was not accepted: {verified}"
    if (failed := _CONNECTS.findall(str(error))) and not _CONNECTS.sub("", str(error)).strip(" ,"):
        return ", ".join(dict.fromkeys(os.strerror(int(number)) for number in failed))
    if error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    said = _LIBRARY.sub("", error.strerror or str(error)) if error.args else ""
    return _said(said) or _in_words(type(error).__name__)


def _said(text: str) -> str:
    """Without the numbers of the system's errors; an error of the TLS library that says nothing says ``()``."""
    text = _NUMBER.sub("", text).strip()
    return "" if text == "()" else text


def _in_words(name: str) -> str:
    words = [word if word.isupper() else word.lower() for word in _WORD.findall(name)]
    # "timeout error" and "OS error" keep it: one word alone says too little.
    return " ".join(words[:-1] if len(words) > 2 and words[-1] == "error" else words)
