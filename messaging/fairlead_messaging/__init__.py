"""Messaging: ordered, durable, transactional topics that everybody reads in the same order.

    client ──▶ api ◀── server        programs install the client; the service never imports it
      │                  │
      requests, retry,   one writer, readers of snapshots, push subscriptions
      cursor, publish    over an ordered key-value store (rocksdb | sqlite | memory)
      buffer, transaction
      context

``app`` is the service as a program.  In each room modules decide and ``io`` acts.  A publish is answered only after its
batch is durable; concurrent publishes share one batch.  Positions only grow: across clock steps, restarts and
sequence overflow.

What programs use is importable from here, each name loaded when it is first used: the extra ``client`` needs nothing of
the service, and without asyncio not even aiohttp.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairlead_messaging.api.requests import Producer as Producer
    from fairlead_messaging.api.responses import Message as Message
    from fairlead_messaging.client import errors as errors
    from fairlead_messaging.client.io.async_client import AsyncClient as AsyncClient
    from fairlead_messaging.client.io.buffered_publisher import AsyncBufferedPublisher as AsyncBufferedPublisher
    from fairlead_messaging.client.io.buffered_publisher import BufferedPublisher as BufferedPublisher
    from fairlead_messaging.client.io.connections import Tls as Tls
    from fairlead_messaging.client.io.sync_client import BulkClient as BulkClient
    from fairlead_messaging.client.io.sync_client import Client as Client
    from fairlead_messaging.client.io.transaction_context import AsyncRenewal as AsyncRenewal
    from fairlead_messaging.client.io.transaction_context import AsyncTransactionContext as AsyncTransactionContext
    from fairlead_messaging.client.io.transaction_context import Renewal as Renewal
    from fairlead_messaging.client.io.transaction_context import TransactionContext as TransactionContext
    from fairlead_messaging.client.retry import PATIENT as PATIENT

_HOMES = {
    "AsyncBufferedPublisher": "client.io.buffered_publisher",
    "AsyncClient": "client.io.async_client",
    "AsyncRenewal": "client.io.transaction_context",
    "AsyncTransactionContext": "client.io.transaction_context",
    "BufferedPublisher": "client.io.buffered_publisher",
    "BulkClient": "client.io.sync_client",
    "Client": "client.io.sync_client",
    "Message": "api.responses",
    "PATIENT": "client.retry",
    "Producer": "api.requests",
    "Tls": "client.io.connections",
    "Renewal": "client.io.transaction_context",
    "TransactionContext": "client.io.transaction_context",
    "errors": "client.errors",
}

__all__ = [
    "PATIENT",
    "AsyncBufferedPublisher",
    "AsyncClient",
    "AsyncRenewal",
    "AsyncTransactionContext",
    "BufferedPublisher",
    "BulkClient",
    "Client",
    "Message",
    "Producer",
    "Renewal",
    "Tls",
    "TransactionContext",
    "errors",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{home}")
    return module if name == "errors" else getattr(module, name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
