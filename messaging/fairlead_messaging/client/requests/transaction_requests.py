"""Transactions: begun, renewed and ended; messages that are stored and published under one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from fairlead_messaging.api import routes
from fairlead_messaging.api.requests import (
    LIST_LIMIT_DEFAULT,
    CommitRequest,
    PublishRequest,
    StartRequest,
    TransactionsQuery,
    TransactionState,
)
from fairlead_messaging.api.responses import (
    How,
    OpenTransaction,
    Renewed,
    Started,
)
from fairlead_messaging.api.routes import ApiRoute
from fairlead_messaging.client.errors import Denied, TransactionOver
from fairlead_messaging.client.request import ClientRequest, ask, order, to

_FINISH: dict[How, tuple[ApiRoute[Any], str]] = {
    "commit": (routes.COMMIT, "committed"),
    "abort": (routes.ABORT, "aborted"),
    "invalidate": (routes.INVALIDATE, "invalid"),
}


def start_transaction(timeout_seconds: float | None = None) -> ClientRequest[Started]:
    """``timeout_seconds``: the service's 30 by default, at most 600 unless it is set so; then it becomes invalid by
    itself, unless it is renewed before.

    Repeated after a lost answer it may leave one behind that is never used, which holds up no reader.
    """
    return ask(routes.START, body=StartRequest(timeout=timeout_seconds))


def renew_transaction(pointer: int, timeout_seconds: float | None = None) -> ClientRequest[Renewed]:
    """Let it live on: ``timeout_seconds`` from now, else as long as it asked for at its start.

    No renewal carries it beyond ``renewable``, nor lets it hold up readers longer than their topic allows.
    Raises ``TransactionOver``.
    """
    return ask(routes.RENEW, pointer, body=StartRequest(timeout=timeout_seconds))


def finish_transaction(
    pointer: int, how: How, changes: Sequence[str] = (), *, may_be_done: bool = False
) -> ClientRequest[None]:
    """Commit, abort or invalidate.  ``changes``: keys changed; a commit that another one overtook is a conflict.

    ``may_be_done``: an earlier attempt had no answer, so that it is in this state already is as good.
    Raises ``TransactionConflict`` (it is aborted), ``TransactionOver``, ``StoredUnpublished`` (it is still open).
    """
    route, state = _FINISH[how]

    def done(refused: Denied, in_doubt: bool) -> None:
        is_done = isinstance(refused, TransactionOver) and refused.state == state
        if not (is_done and (in_doubt or may_be_done)):
            raise refused

    body = CommitRequest(changes=list(changes)) if how == "commit" else None
    return order(route, pointer, body=body, on_refusal=done)


def transactions(
    state: TransactionState = "in_progress", *, limit: int = LIST_LIMIT_DEFAULT, before: int | None = None
) -> ClientRequest[list[OpenTransaction]]:
    """Open transactions and the topics whose readers wait for them, oldest first.

    With ``state`` finished ones and how they ended, newest first, at most ``limit`` that began before the pointer
    ``before``; ``ended``: committed, aborted and invalid ones.
    """
    return ask(routes.LIST_TRANSACTIONS, query=TransactionsQuery(state=state, limit=limit, before=before))


def publish_in(pointer: int, namespace: str, name: str, payloads: Sequence[bytes]) -> ClientRequest[bytes]:
    """Publish under a transaction (nothing: what was stored); returns what ``roll_back`` takes, as it is.

    Repeated after a lost answer only without payloads: what was stored is published once.
    Raises ``StoredAlready`` for payloads in a topic where others were stored before, ``TransactionOver``.
    """
    body = PublishRequest(transactionWritePointer=pointer, messages=list(payloads))
    return to(
        routes.PUBLISH, namespace, name, body=body, decode=lambda response: response.body, repeatable=not payloads
    )


def store_in(pointer: int, namespace: str, name: str, payloads: Sequence[bytes]) -> ClientRequest[None]:
    """Store under a transaction, for a later publish of nothing.  What was published before comes first."""
    body = PublishRequest(transactionWritePointer=pointer, messages=list(payloads))
    return order(routes.STORE, namespace, name, body=body, repeatable=False)


def roll_back(namespace: str, name: str, detail: bytes) -> ClientRequest[None]:
    """Take back what a ``publish_in`` of an open transaction published; ``detail`` is what it returned."""
    return order(routes.ROLLBACK, namespace, name, body=msgspec.Raw(detail))
