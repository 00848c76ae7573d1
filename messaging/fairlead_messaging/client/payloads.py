"""What may be published: bytes, in a list.

In JSON a payload is base64, and text is taken as if it were: sent as it is, "text" would be stored as what it decodes
to. So each entry point asks here first, before anything is buffered or sent.
"""

from __future__ import annotations

from collections.abc import Iterable


def checked_payloads(payloads: Iterable[bytes]) -> list[bytes]:
    """As a list.  Raises ``TypeError`` saying which is no bytes, and what to write instead."""
    if isinstance(payloads, str):
        raise TypeError("payloads must be a list of bytes, is one str: use [text.encode()]")
    if isinstance(payloads, bytes | bytearray | memoryview):
        raise TypeError(f"payloads must be a list of bytes, is one {type(payloads).__name__}: use [payload]")
    if isinstance(payloads, dict) or not isinstance(payloads, Iterable):
        raise TypeError(f"payloads must be a list of bytes, is {type(payloads).__name__}")
    found = list(payloads)
    for place, payload in enumerate(found):
        check_payload(payload, f"payloads[{place}]")
    return found


def check_payload(payload: object, name: str = "payload") -> None:
    """Raises ``TypeError`` unless it is bytes; ``name`` is how the sentence calls it."""
    if isinstance(payload, bytes | bytearray | memoryview):
        return
    remedy = "use .encode()" if isinstance(payload, str) else "encode it first, as json.dumps(value).encode() does"
    raise TypeError(f"{name} must be bytes, is {type(payload).__name__}: {remedy}")
