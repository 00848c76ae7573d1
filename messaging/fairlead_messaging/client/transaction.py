"""Scripts of transactions: with several participants (``TransactionCoordinator``), and renewed (``keep_alive``).

    begin ─→ add… (a full buffer is stored) ─→ finish:  persist each ─→ publish ─→ commit
                                                  └─any failure─→ roll back each, newest first ─→ abort | invalidate

``io.transaction_context`` performs the steps.  Messages are published last, so that none is visible before the changes
it describes, and readers wait for the transaction as briefly as possible.

    wait a third of the timeout ─→ renew ─answered→ wait a third ─→ …
                                     ├─no answer→ again soon, until the timeout has passed → lost
                                     └─"it is over"→ lost, for the reason the service gives

So two renewals in a row may fail, as during a restart of the service.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from fairlead_messaging.api import error_codes
from fairlead_messaging.api.requests import TIMEOUT_SECONDS_DEFAULT
from fairlead_messaging.api.responses import How, Started
from fairlead_messaging.client import requests
from fairlead_messaging.client.errors import Denied, Failed, InDoubt, TransactionLost, TransactionOver
from fairlead_messaging.client.payloads import checked_payloads
from fairlead_messaging.client.request import ClientRequest
from fairlead_messaging.client.script import Pause
from fairlead_wire.errors import FairleadError, LocalError

BUFFER_BYTES_MAX = 1024 * 1024
COMMIT_PAUSES_SECONDS = (0.1, 0.2, 0.5, *[1.0] * 29)
"""Waits between attempts to commit while no answer comes; together about the default timeout of a transaction."""
RENEWALS = 3
"""How many renewals fall into one timeout."""
RETRY_FRACTION = 10
"""The fraction of the timeout after which a failed renewal is tried again."""

Name = tuple[str, str]


def _never() -> TransactionLost | None:
    return None


class Changing(Protocol):
    """What the scripts need to know of a participant."""

    def changes(self) -> Sequence[str]:
        """The keys that it changed, for conflict detection; may be empty."""
        ...


Who = TypeVar("Who", bound=Changing)


@dataclass(frozen=True, slots=True)
class Persist(Generic[Who]):
    """The step in which a participant writes its changes; ``RollBack`` may follow."""

    participant: Who


@dataclass(frozen=True, slots=True)
class RollBack(Generic[Who]):
    """The step in which a participant undoes what it wrote, even if that is only a part."""

    participant: Who


Step = ClientRequest[Any] | Persist[Who] | RollBack[Who] | Pause
Script = Generator[Step[Who], Any, None]


def commit(pointer: int, changes: Sequence[str] = ()) -> Generator[ClientRequest[Any] | Pause, Any, None]:
    """Commit, repeatedly while no answer comes: a committed transaction must not be undone or reported as failed.

    Raises ``InDoubt`` if no attempt is answered, ``TransactionConflict``, ``TransactionOver``.
    """
    in_doubt: Failed | None = None
    for seconds in (*COMMIT_PAUSES_SECONDS, None):
        try:
            yield requests.finish_transaction(pointer, "commit", changes, may_be_done=in_doubt is not None)
            return
        except Failed as failed:
            in_doubt = failed if failed.in_doubt else in_doubt
            if seconds is None:
                if in_doubt is None:
                    raise
                raise InDoubt(f"no answer says whether {pointer} committed: {failed}", pointer=pointer) from failed
        yield Pause(seconds)


class TransactionCoordinator(Generic[Who]):
    """For one transaction; cannot be used twice."""

    def __init__(
        self, participants: Sequence[Who], *, timeout_seconds: float | None, buffer_bytes_max: int = BUFFER_BYTES_MAX
    ) -> None:
        self._participants = participants
        self._timeout_seconds = timeout_seconds
        self._buffer_bytes_max = buffer_bytes_max
        self._buffers: dict[Name, list[bytes]] = {}
        self._buffered = 0
        self._stored: dict[Name, None] = {}
        self._details: list[tuple[Name, bytes]] = []
        self._started: Started | None = None
        self._lost: Callable[[], TransactionLost | None] = _never
        self.failures: list[BaseException] = []
        """Errors of the rollback; the messages are hidden nevertheless, at the latest by the transaction's timeout."""

    @property
    def started(self) -> Started:
        """Raises ``LocalError`` outside the block."""
        if self._started is None:
            raise LocalError("the transaction context is not open")
        return self._started

    @property
    def timeout_seconds(self) -> float:
        """The timeout of the transaction."""
        return self._timeout_seconds or TIMEOUT_SECONDS_DEFAULT

    def begin(self) -> Script[Who]:
        self._started = yield requests.start_transaction(self._timeout_seconds)

    def renewed_by(self, lost: Callable[[], TransactionLost | None]) -> None:
        """``lost`` tells whether the transaction was lost despite its renewals; if so, nothing more is written."""
        self._lost = lost

    def check(self) -> None:
        """Raises ``TransactionLost`` once that is known."""
        if (lost := self._lost()) is not None:
            raise lost

    def add(self, namespace: str, name: str, payloads: Sequence[bytes]) -> Script[Who]:
        """Buffer payloads; a full buffer is stored with the service."""
        assert self.started
        self.check()
        checked = checked_payloads(payloads)
        self._buffers.setdefault((namespace, name), []).extend(checked)
        self._buffered += sum(map(len, checked))
        if self._buffered > self._buffer_bytes_max:
            yield from self._store()

    def finish(self, error: BaseException | None) -> Script[Who]:
        """Commit, or undo everything after ``error``, which the block raised and the caller raises again."""
        if error is not None:
            yield from self._undo()
            return
        try:
            for participant in self._participants:
                self.check()  # if it is lost, what the next participant wrote would only have to be undone
                yield Persist(participant)
            self.check()
            yield from self._publish()
            changes = [change for participant in self._participants for change in participant.changes()]
            yield from commit(self.started.transactionWritePointer, changes)
        except (InDoubt, GeneratorExit):
            raise
        except BaseException:
            yield from self._undo()
            raise

    def _store(self) -> Script[Who]:
        for name, payloads in self._buffers.items():
            yield requests.store_in(self.started.transactionWritePointer, *name, payloads)
            self._stored[name] = None
        self._buffers.clear()
        self._buffered = 0

    def _publish(self) -> Script[Who]:
        if self._stored:
            yield from self._store()  # later payloads must follow those stored before, in every topic
            batches = {name: list[bytes]() for name in self._stored}
        else:
            batches = self._buffers
        for name, payloads in batches.items():
            detail = yield requests.publish_in(self.started.transactionWritePointer, *name, payloads)
            self._details.append((name, detail))

    def _undo(self) -> Script[Who]:
        """Roll all participants back, then abort, or invalidate if a rollback failed.

        The transaction may have ended already, by a conflict or its timeout; then its messages are hidden.
        """
        for participant in reversed(self._participants):
            try:
                yield RollBack(participant)
            except Exception as error:  # noqa: BLE001 - the others must be rolled back too
                self.failures.append(error)
        for name, detail in self._details:
            try:
                yield requests.roll_back(*name, detail)
            except FairleadError as error:
                self.failures.append(error)
        how: How = "invalidate" if self.failures else "abort"
        try:
            yield requests.finish_transaction(self.started.transactionWritePointer, how)
        except FairleadError as error:
            self.failures.append(error)


def keep_alive(
    pointer: int, timeout_seconds: float, steady: Callable[[], float]
) -> Generator[ClientRequest[Any] | Pause, Any, TransactionLost | None]:
    """Renew the transaction until it is lost, and return how; None if the service refuses to renew it otherwise.

    ``steady`` is a monotonic clock, in seconds.
    """
    renewed_at, pause = steady(), timeout_seconds / RENEWALS
    while True:
        yield Pause(pause)
        asked_at = steady()
        try:
            yield requests.renew_transaction(pointer, timeout_seconds)
        except TransactionOver as over:
            return TransactionLost(
                f"transaction {pointer} was lost: {over.reason or over}",
                code=over.code, status=over.status, facts=over.facts,
            )  # fmt: skip
        except Denied:
            return None
        except FairleadError as failed:
            left = renewed_at + timeout_seconds - steady()
            if left <= 0:
                return TransactionLost(
                    f"transaction {pointer} was lost: no renewal was answered for {timeout_seconds:g} s: {failed}",
                    code=error_codes.NOT_IN_PROGRESS, facts={"state": "unknown", "ended_by": "timeout"},
                )  # fmt: skip
            pause = min(left, timeout_seconds / RETRY_FRACTION)
        else:
            renewed_at, pause = asked_at, timeout_seconds / RENEWALS
