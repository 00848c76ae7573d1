"""Order of Kubernetes resourceVersions, without trusting their text.

Since Kubernetes 1.35 the versions of one resource are documented as comparable decimal
numbers.  They are compared by (length, text), never by ``int()`` of unchecked input: a
peer's or a restored record's garbage must not raise, nor cost quadratic time.
"""

from __future__ import annotations

VERSION_CHARS_MAX = 64


def is_comparable(version: str) -> bool:
    """True for a decimal number without leading zeros, at most ``VERSION_CHARS_MAX`` digits."""
    return (
        0 < len(version) <= VERSION_CHARS_MAX
        and version.isascii()
        and version.isdigit()
        and (version == "0" or version[0] != "0")
    )


def is_newer(candidate: str, than: str) -> bool:
    """True when ``candidate`` is known to be newer.

    Empty or foreign text is older than any comparable version; between two foreign texts
    nothing is known, so the answer is False and the content digest has to decide.
    """
    if not is_comparable(candidate):
        return False
    if not is_comparable(than):
        return True
    return (len(candidate), candidate) > (len(than), than)
