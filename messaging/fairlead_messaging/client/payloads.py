"""What may be published: bytes, in a list.

JSON carries payloads as base64.  A str would pass for base64, and the service would store what it decodes to.  So every
entry point checks payloads here before it buffers or sends anything.
"""

from __future__ import annotations

from collections.abc import Iterable


def checked_payloads(payloads: Iterable[bytes]) -> list[bytes]:
    """The payloads as a list.  Raises ``TypeError`` naming the first that is not bytes, and what to write instead."""
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
    """Raises ``TypeError`` unless the payload is bytes; ``name`` stands for it in the message."""
    if isinstance(payload, bytes | bytearray | memoryview):
        return
    remedy = "use .encode()" if isinstance(payload, str) else "encode it first, as json.dumps(value).encode() does"
    raise TypeError(f"{name} must be bytes, is {type(payload).__name__}: {remedy}")
