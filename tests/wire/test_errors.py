"""Errors carry what the reader needs to decide what comes next."""

import errno
import socket
import ssl

import pytest

from fairlead_wire import errors


def test_whose_fault_is_in_the_type():
    """A caller can tell our own mistake from the peer's, and both from everything else."""
    assert not issubclass(errors.LocalError, errors.RemoteError)
    assert issubclass(errors.FrameTooLarge, errors.RemoteError)
    assert issubclass(errors.Malformed, errors.RemoteError)


def test_what_comes_next_is_in_the_fields():
    """Temporary says when, Permanent says which."""
    assert errors.Temporary("busy", retry_after_seconds=3).retry_after_seconds == 3
    assert errors.Temporary("busy").retry_after_seconds is None
    assert errors.Permanent("no such topic", code="not_found").code == "not_found"
    assert "70 bytes" in str(errors.FrameTooLarge(size=70, limit=60))


@pytest.mark.parametrize(
    ("error", "text", "line"),
    [
        (ConnectionResetError("by peer"), "by peer", "ConnectionResetError: by peer"),
        (ConnectionResetError(), "connection reset", "connection reset"),
        (OSError(2, "No such file"), "No such file", "FileNotFoundError: No such file"),
        (socket.gaierror(-2, "Name unknown"), "Name unknown", "gaierror: Name unknown"),
        (TimeoutError(" "), "timeout error", "timeout error"),
        (OSError(), "OS error", "OS error"),
        (ssl.SSLEOFError(), "SSLEOF error", "SSLEOF error"),
        (
            OSError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 1)"),
            "connection refused",
            "ConnectionRefusedError: Connect call failed ('127.0.0.1', 1)",
        ),
    ],
)
def test_a_reason_is_never_empty(error, text, line):
    """An error that says nothing is named in words."""
    assert (errors.text_of(error), errors.described(error)) == (text, line)
    assert errors.cause_of(FileNotFoundError(2, "No such file", "none.toml")) == "No such file"
    assert errors.described(error, "first line").endswith(": first line")


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (OSError(111, "Connect call failed ('127.0.0.1', 16201)"), "Connection refused"),
        (
            OSError(
                "Multiple exceptions: [Errno 111] Connect call failed ('::1', 1, 0, 0),"
                " [Errno 111] Connect call failed ('127.0.0.1', 1)"
            ),
            "Connection refused",
        ),
        (PermissionError(13, "Permission denied", "/data/token"), "/data/token: Permission denied"),
        (FileNotFoundError(2, "No such file or directory"), "No such file or directory"),
        (
            ssl.SSLError(116, "[X509: KEY_VALUES_MISMATCH] key values mismatch (_ssl.c:3926)"),
            "key values mismatch",
        ),
        (ssl.SSLEOFError(), "SSLEOF error"),
        (ConnectionResetError("by peer"), "by peer"),
        (TimeoutError(), "timeout error"),
        (ValueError("no text"), "ValueError: no text"),
    ],
)
def test_people_are_not_shown_what_a_library_adds(error, line):
    assert errors.plain(error) == line


def test_a_file_is_named_before_the_reason():
    assert errors.described(PermissionError(13, "Permission denied", "/data/token")) == "/data/token: Permission denied"
