"""Connections to Cassandra, and its errors translated into errors of the store that name a remedy.

A write either took place or has an unknown outcome (``UnknownOutcome``).
"""

from __future__ import annotations

import logging
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from fairlead_messaging.api.errors import StorageError
from fairlead_messaging.server.settings import CassandraModel, contact_point
from fairlead_wire import distribution, errors
from fairlead_wire.io import logs

# --- The tables of the keyspace. A shard is what one instance owns; every table is keyed by it, and so far there is
# only one.

SHARD: Final = "0"
LAYOUT: Final = 1
"""The version of these tables; another number in the journal is refused."""
SLOTS: Final = 32
"""How many records the journal holds, and so how many durable batches may not be applied yet."""
PIECE_BYTES: Final = 256 * 1024
"""Larger values are split into several rows, which keeps a message to a node far below its limit."""

TABLES: Final = {
    # One partition of bounded size for each shard. Written only by conditional batches.
    "journal": """CREATE TABLE IF NOT EXISTS journal (
        shard text, layout int static, epoch bigint static, owner text static, owner_name text static,
        beat bigint static, committed bigint static, applied bigint static,
        slot int, number bigint, written_by bigint, parts int, record blob,
        PRIMARY KEY (shard, slot)) WITH comment = 'fairlead messaging: the newest batches, and who may write'""",
    # Records too large for one conditional write; deleted once they are applied.
    "journal_parts": """CREATE TABLE IF NOT EXISTS journal_parts (
        shard text, epoch bigint, number bigint, part int, record blob,
        PRIMARY KEY ((shard, epoch, number), part)) WITH comment = 'fairlead messaging: large batches'""",
    # Which partitions `rows` has.
    "buckets": """CREATE TABLE IF NOT EXISTS buckets (
        shard text, low blob, bytes bigint,
        PRIMARY KEY (shard, low)) WITH comment = 'fairlead messaging: partitions of rows by their lowest key'""",
    # All keys and values. Written with the number of the batch as timestamp.
    "rows": """CREATE TABLE IF NOT EXISTS rows (
        shard text, bucket blob, key blob, piece int, pieces int, value blob,
        PRIMARY KEY ((shard, bucket), key, piece)) WITH comment = 'fairlead messaging: keys and values in order'""",
}

try:
    import cassandra
    from cassandra import ConsistencyLevel
    from cassandra.auth import PlainTextAuthProvider
    from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, NoHostAvailable
    from cassandra.cluster import Session as DriverSession
    from cassandra.policies import (
        DCAwareRoundRobinPolicy,
        ExponentialReconnectionPolicy,
        FallthroughRetryPolicy,
        RoundRobinPolicy,
        TokenAwarePolicy,
    )
    from cassandra.query import tuple_factory
except ImportError as _missing:  # pragma: no cover - another set of packages
    _remedy = distribution.install("cassandra")
    raise StorageError(f'store = "cassandra" needs the driver: {_remedy}') from _missing

NO_DELAY: Final = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)]
"""The driver sets none, and a batch then waits up to 40 ms for an acknowledgement."""
REQUEST_SECONDS: Final = 5.0
CONNECT_SECONDS: Final = 10.0
RECONNECT_SECONDS: Final = (0.5, 5.0)
TOO_MANY_TOMBSTONES: Final = 1
PASSWORD_BYTES_MAX: Final = 64 * 1024
READS: Final = "read"

_log = logs.get("messaging.cassandra")
# The driver logs every lost connection; the errors and logs of this module tell operators what they need to know.
logging.getLogger("cassandra").setLevel(logging.CRITICAL)


class UnknownOutcome(StorageError):
    """It is unknown whether a write took place."""


class TooManyTombstones(StorageError):
    """A read met more deleted rows than it may skip."""


class CassandraSession:
    """A session with one keyspace.  ``note(operation, seconds)`` is called for each request that was answered."""

    def __init__(self, model: CassandraModel, note: Callable[[str, float], None]) -> None:
        self.model = model
        self._note = note
        self.consistency: int = getattr(ConsistencyLevel, model.consistency)
        local = model.consistency.startswith("LOCAL_")
        self.serial: int = ConsistencyLevel.LOCAL_SERIAL if local else ConsistencyLevel.SERIAL
        datacenter, nodes = self._found_datacenter()
        self._cluster = self._made(TokenAwarePolicy(DCAwareRoundRobinPolicy(datacenter)))
        try:
            with driver_errors("connect", model):
                self._session: DriverSession = self._cluster.connect()
            self._session.default_fetch_size = None
            self._prepare_keyspace(datacenter, nodes)
            with driver_errors("use the keyspace", model):
                self._session.set_keyspace(model.keyspace)
            self._prepare_tables()
            self._judge_durability()
        except BaseException:
            self._cluster.shutdown()
            raise

    def prepare(self, text: str) -> Any:
        with driver_errors("prepare", self.model):
            prepared = self._session.prepare(text)
        prepared.consistency_level = self.consistency
        prepared.serial_consistency_level = self.serial
        return prepared

    def execute(
        self, operation: str, statement: Any, values: Sequence[Any] | None = None, seconds: float = REQUEST_SECONDS
    ) -> list[tuple[Any, ...]]:
        """Execute a statement and return its rows.  Raises: UnknownOutcome for a write, StorageError."""
        began = time.monotonic()
        with driver_errors(operation, self.model):
            found = list(self._session.execute(statement, values, timeout=seconds))
        self._note(operation, time.monotonic() - began)
        return found

    def execute_all(self, operation: str, statements: Iterator[Any], at_once: int) -> None:
        """Execute all statements, ``at_once`` of them concurrently.  Raises: StorageError of the first that failed."""
        began = time.monotonic()
        waiting: list[Any] = []
        with driver_errors(operation, self.model):
            for statement in statements:
                if len(waiting) >= at_once:
                    waiting.pop(0).result()
                waiting.append(self._session.execute_async(statement, timeout=REQUEST_SECONDS))
            for future in waiting:
                future.result()
        self._note(operation, time.monotonic() - began)

    def close(self) -> None:
        self._cluster.shutdown()

    def _made(self, policy: Any) -> Cluster:
        profile = ExecutionProfile(
            load_balancing_policy=policy,
            retry_policy=FallthroughRetryPolicy(),  # an unknown outcome must be found out, not repeated
            request_timeout=REQUEST_SECONDS,
            row_factory=tuple_factory,
        )
        points = [contact_point(each) for each in self.model.contact_points]
        return Cluster(
            points,
            port=points[0][1],
            execution_profiles={EXEC_PROFILE_DEFAULT: profile},
            auth_provider=_Login(self.model) if self.model.username is not None else None,
            ssl_context=_tls(self.model),
            sockopts=NO_DELAY,
            connect_timeout=CONNECT_SECONDS,
            control_connection_timeout=CONNECT_SECONDS,
            reconnection_policy=ExponentialReconnectionPolicy(*RECONNECT_SECONDS),
            schema_metadata_enabled=False,
            idle_heartbeat_interval=5,
            idle_heartbeat_timeout=5,
            application_name="fairlead-messaging",
        )

    def _found_datacenter(self) -> tuple[str, int]:
        """The datacenter's name and its number of nodes."""
        asking = self._made(RoundRobinPolicy())
        try:
            with driver_errors("connect", self.model):
                session = asking.connect()
                (own,) = session.execute("SELECT data_center, release_version FROM system.local")
                peers = list(session.execute("SELECT data_center FROM system.peers"))
        finally:
            asking.shutdown()
        version = str(own[1])
        if int(version.partition(".")[0]) < 4:
            raise StorageError(f"cassandra is version {version}, and this service needs 4.0 or newer: upgrade it")
        all_of_them = [str(each[0]) for each in ((own[0],), *peers)]
        wanted = self.model.datacenter or str(own[0])
        if wanted not in all_of_them:
            raise StorageError(
                f"cassandra.datacenter is {wanted!r}, and the cluster has {', '.join(sorted(set(all_of_them)))}: "
                "write one of these"
            )
        return wanted, all_of_them.count(wanted)

    def _prepare_keyspace(self, datacenter: str, nodes: int) -> None:
        name = self.model.keyspace
        query = "SELECT replication, durable_writes FROM system_schema.keyspaces WHERE keyspace_name = %s"
        found = self.execute(READS, query, (name,))
        if not found:
            copies = min(3, nodes)
            _log.warning(
                "keyspace_made", keyspace=name, datacenter=datacenter, copies=copies,
                remedy="to have other options, create it yourself before the first start",
            )  # fmt: skip
            quoted = datacenter.replace("'", "''")
            replication = f"{{'class': 'NetworkTopologyStrategy', '{quoted}': {copies}}}"
            self.execute("schema", f'CREATE KEYSPACE IF NOT EXISTS "{name}" WITH replication = {replication}', None, 60)
            found = self.execute(READS, query, (name,))
        if not found[0][1]:
            raise StorageError(
                f"cassandra: keyspace {name} has durable_writes = false, so a node that is killed loses acknowledged "
                f"writes: ALTER KEYSPACE {name} WITH durable_writes = true"
            )
        copies = sum(int(value.partition("/")[0]) for value in dict(found[0][0]).values() if value[:1].isdigit())
        if copies != 1 and self.model.consistency in ("ONE", "LOCAL_ONE"):
            raise StorageError(
                f"cassandra.consistency is {self.model.consistency}, and keyspace {name} has {copies} copies: one may "
                "lack what another confirmed. Use LOCAL_QUORUM"
            )

    def _prepare_tables(self) -> None:
        there = self.execute(
            READS, "SELECT table_name FROM system_schema.tables WHERE keyspace_name = %s", (self.model.keyspace,)
        )
        missing = [text for name, text in TABLES.items() if (name,) not in there]
        for text in missing:
            self.execute("schema", text, None, 60)

    def _judge_durability(self) -> None:
        """Warn unless the node that answers syncs its commit log before it acknowledges a write."""
        try:
            found = dict(
                self.execute(
                    READS,
                    "SELECT name, value FROM system_views.settings WHERE name = 'commitlog_sync'",
                )
            )
        except StorageError as error:
            _log.warning(
                "commitlog_sync_unknown",
                reason=_first_line(error),
                remedy=f"GRANT SELECT ON system_views.settings TO {self.model.username}; and check for commitlog_sync: "
                "batch (or group) in cassandra.yaml of every node",
            )
            return
        if found.get("commitlog_sync") == "periodic":
            _log.warning(
                "commitlog_sync_periodic",
                reason="a node that is killed loses what it acknowledged in the last seconds; if all nodes with a copy "
                "fail at once, acknowledged messages are lost",
                remedy="commitlog_sync: batch (or group) in cassandra.yaml of every node",
            )


class _Login(PlainTextAuthProvider):  # type: ignore[misc, unused-ignore]
    """Reads the password file for every connection."""

    def __init__(self, model: CassandraModel) -> None:
        super().__init__(model.username, "")
        self._file = Path(model.password_file or "")

    def new_authenticator(self, host: Any) -> Any:
        self.password = read_password(self._file)
        return super().new_authenticator(host)


def read_password(file: Path) -> str:
    """The password in the file, without the end of its line.  Raises: StorageError."""
    try:
        with file.open("rb") as opened:
            return opened.read(PASSWORD_BYTES_MAX).decode().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not text"
        raise StorageError(f"cassandra.password_file {file}: {reason}") from None


def _tls(model: CassandraModel) -> ssl.SSLContext | None:
    if model.tls_ca is None:
        return None
    try:
        context = ssl.create_default_context(cafile=model.tls_ca)
    except (OSError, ssl.SSLError) as error:
        raise StorageError(f"cassandra.tls_ca {model.tls_ca}: {error}") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


@contextmanager
def driver_errors(operation: str, model: CassandraModel) -> Iterator[None]:
    """Turn errors of the driver into errors of the store that name a remedy."""
    try:
        yield
    except StorageError:
        raise
    except NoHostAvailable as error:
        raise _unreachable(operation, model, list((error.errors or {}).values())) from None
    except cassandra.AuthenticationFailed as error:
        raise _login_refused(model, error) from None
    except ssl.SSLError as error:
        raise _tls_failed(operation, error) from None
    except cassandra.Unauthorized as error:
        raise StorageError(
            f"cassandra {operation}: user {model.username} lacks a permission ({_first_line(error)}): "
            f"GRANT CREATE, SELECT, MODIFY ON KEYSPACE {model.keyspace} TO {model.username}; to have the keyspace "
            "made, CREATE ON ALL KEYSPACES"
        ) from None
    except cassandra.Unavailable as error:
        raise StorageError(
            f"cassandra {operation}: {error.alive_replicas} of the {error.required_replicas} copies that "
            f"{model.consistency} needs are up; this ends by itself once enough are"
        ) from None
    except cassandra.ReadFailure as error:
        if TOO_MANY_TOMBSTONES in (error.error_code_map or {}).values():
            raise TooManyTombstones(f"cassandra {operation}: too many deleted rows in the range") from None
        raise StorageError(f"cassandra {operation}: {_first_line(error)}") from None
    except cassandra.ReadTimeout as error:
        raise StorageError(f"cassandra {operation}: no answer in time ({_first_line(error)})") from None
    except (cassandra.WriteTimeout, cassandra.WriteFailure, cassandra.OperationTimedOut) as error:
        raise UnknownOutcome(f"cassandra {operation}: unknown whether it took place ({_first_line(error)})") from None
    except (cassandra.DriverException, OSError, TypeError, ValueError) as error:
        raise UnknownOutcome(f"cassandra {operation}: {errors.described(error, _first_line(error))}") from None
    except Exception as error:
        # The errors of the driver's connections share no other base class.
        if type(error).__module__.startswith("cassandra."):
            raise UnknownOutcome(f"cassandra {operation}: {errors.described(error, _first_line(error))}") from None
        raise


def _unreachable(operation: str, model: CassandraModel, errors: list[Any]) -> StorageError:
    for error in errors:
        if isinstance(error, cassandra.AuthenticationFailed):
            return _login_refused(model, error)
        if isinstance(error, StorageError):
            return error
        if isinstance(error, ssl.SSLError) or "SSL" in str(error):
            return _tls_failed(operation, error)
    if any(isinstance(error, cassandra.Unavailable) for error in errors):
        return StorageError(f"cassandra {operation}: too few copies are up; this ends by itself once enough are")
    reason = "; ".join(sorted({_first_line(each) for each in errors})) or "no connection to any node"
    tls = "" if model.tls_ca else "; for nodes with TLS set cassandra.tls_ca"
    return UnknownOutcome(
        f"cassandra {operation}: none of {', '.join(model.contact_points)} can be used ({reason[:400]}{tls})"
    )


def _tls_failed(operation: str, error: Exception) -> StorageError:
    return UnknownOutcome(
        f"cassandra {operation}: TLS failed ({_first_line(error)}): is cassandra.tls_ca the authority of the "
        "nodes' certificates, and do these name their addresses?"
    )


def _login_refused(model: CassandraModel, error: Exception) -> StorageError:
    if model.username is None:
        return StorageError("cassandra requires a login: set cassandra.username and cassandra.password_file")
    text = _first_line(error)
    if "password_file" in text:
        return StorageError(text)
    return StorageError(
        f"cassandra refused the login of user {model.username}: is the password in cassandra.password_file "
        f"({model.password_file}) the one of that user, and may it log in?"
    )


def _first_line(error: object) -> str:
    return str(error).partition("\n")[0][:300]
