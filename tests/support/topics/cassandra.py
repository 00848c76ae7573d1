"""A real Cassandra on loopback: one node for most tests, a ring of three where nodes must fail.

with Cassandra(folder) as cassandra:
    cassandra.settings("keyspace")      lines for messaging's settings file
    cassandra.nodes[0].kill()           kill -9; `start` brings it back with what its disk holds

A node takes 700 to 950 MB of memory and about five seconds.  Nodes have one port at 127.0.0.1, 127.0.0.2, ….
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import socket
import ssl
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Self

from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, NoHostAvailable, Session
from cassandra.policies import WhiteListRoundRobinPolicy
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from tests.support.joining.pki import Authority
from tests.support.processes import Running, free_ports, start, wait_until
from tests.support.tools import fetched, tool

READY_SECONDS: Final = 180.0
BUILDER: Final = Path(__file__).resolve().parents[3] / "e2e" / "cassandra" / "build.py"
DATACENTER: Final = "datacenter1"
NO_DELAY: Final = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)]

EXPORTS: Final = (
    "java.base/jdk.internal.misc", "java.management.rmi/com.sun.jmx.remote.internal.rmi", "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server", "java.sql/java.sql", "java.base/java.lang.ref", "jdk.unsupported/sun.misc",
    "jdk.compiler/com.sun.tools.javac.file", "jdk.attach/sun.tools.attach",
)  # fmt: skip
OPENS: Final = (
    *(f"java.base/{each}" for each in (
        "java.lang.module", "jdk.internal.loader", "jdk.internal.ref", "jdk.internal.reflect", "jdk.internal.math",
        "jdk.internal.module", "jdk.internal.util.jar", "sun.nio.ch", "java.io", "java.nio", "java.lang",
        "java.lang.reflect", "java.util", "java.util.concurrent", "java.util.concurrent.atomic",
    )),
    "jdk.management/com.sun.management.internal", "jdk.compiler/com.sun.tools.javac",
)  # fmt: skip
FEW_TOMBSTONES: Final = ("tombstone_warn_threshold: 500", "tombstone_failure_threshold: 1000")
"""A read that passes more deleted rows fails; a hundredth of what is usual."""
SUPERUSER: Final = ("cassandra", "cassandra")
"""Whom every new cluster with logins has."""
LOGBACK: Final = """<configuration><appender name="out" class="ch.qos.logback.core.ConsoleAppender">
<encoder><pattern>%-5level %date{ISO8601} %logger{0} %msg%n</pattern></encoder></appender>
<root level="INFO"><appender-ref ref="out"/></root></configuration>
"""


@functools.cache
def built() -> Path:
    """The folder of its jars. Takes seconds the first time. Skips the test if they are not available."""
    tool("java")
    return fetched(BUILDER, "cassandra")


class Node:
    """One node, with its own folder."""

    def __init__(self, folder: Path, number: int, count: int, ports: tuple[int, int], more: Sequence[str]) -> None:
        self.folder = folder
        self.address = f"127.0.0.{number}"
        self.port, storage = ports
        (self._jmx,) = free_ports(1)
        self.running: Running | None = None
        folder.mkdir(parents=True)
        (folder / "logback.xml").write_text(LOGBACK)
        token = -(2**63) + 1 + (number - 1) * (2**64 // count)
        seeds = ",".join(f"127.0.0.{each}:{storage}" for each in range(1, count + 1))
        lines = [
            "cluster_name: fairlead", "num_tokens: 1", f"initial_token: {token}", "auto_bootstrap: false",
            "partitioner: org.apache.cassandra.dht.Murmur3Partitioner", "endpoint_snitch: SimpleSnitch",
            "seed_provider: [{class_name: org.apache.cassandra.locator.SimpleSeedProvider, parameters: "
            f"[{{seeds: '{seeds}'}}]}}]",
            f"listen_address: {self.address}", f"rpc_address: {self.address}", f"storage_port: {storage}",
            f"native_transport_port: {self.port}",
            *(f"{name}: {folder}/{place}" for name, place in (
                ("commitlog_directory", "commitlog"), ("saved_caches_directory", "caches"),
                ("hints_directory", "hints"), ("cdc_raw_directory", "cdc"),
            )),
            f"data_file_directories: ['{folder}/data']",
            "commitlog_sync: batch", "commitlog_segment_size: 8MiB", "memtable_heap_space: 64MiB",
            "memtable_offheap_space: 64MiB", "memtable_allocation_type: offheap_objects", "concurrent_compactors: 1",
            "paxos_variant: v2", *more,
        ]  # fmt: skip
        settings: dict[str, str] = {}
        for line in lines:
            settings[line.partition(":")[0]] = line
        (folder / "cassandra.yaml").write_text("\n".join(settings.values()) + "\n")

    def start(self) -> None:
        """Start it; `Cassandra.wait` says when it is ready."""
        folder = self.folder
        flags = {
            "cassandra.config": f"file:{folder}/cassandra.yaml", "cassandra.storagedir": folder,
            "cassandra.logdir": folder, "logback.configurationFile": f"file:{folder}/logback.xml",
            "cassandra-foreground": "yes", "cassandra.jmx.local.port": self._jmx,
            "cassandra.skip_wait_for_gossip_to_settle": 0, "cassandra.ring_delay_ms": 1000,
            "cassandra.superuser_setup_delay_ms": 0, "cassandra.available_processors": 2,
            "jdk.attach.allowAttachSelf": "true", "io.netty.tryReflectionSetAccessible": "true",
        }  # fmt: skip
        command = [
            "java", "-Xms400M", "-Xmx400M", "-Xss512k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
            "-XX:MaxDirectMemorySize=256M", "-XX:+ExitOnOutOfMemoryError",
            *(f"-D{name}={value}" for name, value in flags.items()),
            *(word for each in EXPORTS for word in ("--add-exports", f"{each}=ALL-UNNAMED")),
            *(word for each in OPENS for word in ("--add-opens", f"{each}=ALL-UNNAMED")),
            "-cp", f"{built()}/*", "org.apache.cassandra.service.CassandraDaemon",
        ]  # fmt: skip
        environ = {**os.environ, "MALLOC_ARENA_MAX": "2"}
        self.running = start(f"cassandra {self.address}", command, folder / "node.log", environ=environ, folder=folder)

    def kill(self) -> None:
        """Kill it with -9."""
        if self.running is not None:
            self.running.kill()
            self.running = None

    @contextlib.contextmanager
    def hung(self) -> Iterator[None]:
        """Suspend it: connections stay open and nothing responds."""
        assert self.running is not None
        os.kill(self.running.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.running.pid, signal.SIGCONT)

    def tail(self) -> str:
        return self.running.tail() if self.running is not None else "not running"


class Cassandra:
    """`more`: further lines of cassandra.yaml, instead of ours where they have the same key.

    With an `authority` it requires TLS and the login of a user with the granted rights.
    """

    def __init__(self, folder: Path, *more: str, nodes: int = 1, authority: Authority | None = None) -> None:
        ports = free_ports(2)
        self.port = ports[0]
        self._login: tuple[str, str] | None = None
        self._tls: ssl.SSLContext | None = None
        if authority is not None:
            self._login = SUPERUSER
            self._tls = ssl.create_default_context(cafile=str(authority.certificate))
            more = (*more, *_secured(folder, authority))
        self.nodes = [
            Node(folder / f"node-{each}", each, nodes, (ports[0], ports[1]), more) for each in range(1, nodes + 1)
        ]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start the nodes that do not run; returns when each responds and knows all running ones."""
        for node in self.nodes:
            if node.running is None:
                node.start()
        for node in self.nodes:
            self.wait(node)

    def kill(self) -> None:
        """Kill all nodes."""
        for node in self.nodes:
            node.kill()

    def wait(self, node: Node) -> None:
        """Wait until it responds, has every running node in its ring, and agrees with each on the schema."""

        def formed() -> bool:
            assert node.running is not None
            node.running.require_alive()
            with self.asked(node) as session:
                peers = list(session.execute("SELECT peer, schema_version FROM system.peers"))
                own = session.execute("SELECT schema_version FROM system.local").one().schema_version
            known = {peer.peer: peer.schema_version for peer in peers}
            return all(
                known.get(each.address) == own for each in self.nodes if each.running is not None and each is not node
            )

        wait_until("Cassandra answers", formed, seconds=READY_SECONDS, every=0.3, describe=node.tail)

    @contextlib.contextmanager
    def asked(self, node: Node | None = None) -> Iterator[Session]:
        """Run statements in a separate session at one node."""
        address = (node or self.nodes[0]).address
        profile = ExecutionProfile(load_balancing_policy=WhiteListRoundRobinPolicy([address]), request_timeout=60.0)
        cluster = Cluster(
            [address], port=self.port, execution_profiles={EXEC_PROFILE_DEFAULT: profile}, sockopts=NO_DELAY,
            auth_provider=PlainTextAuthProvider(*self._login) if self._login else None, protocol_version=5,
            ssl_context=self._tls,
            schema_metadata_enabled=False, token_metadata_enabled=False,
        )  # fmt: skip
        try:
            yield cluster.connect()
        except NoHostAvailable as error:
            raise AssertionError(str(error)) from None
        finally:
            cluster.shutdown()

    def keyspace(self, name: str) -> str:
        """Create a keyspace with a copy on every node."""
        with self.asked() as session:
            session.execute(
                f"CREATE KEYSPACE IF NOT EXISTS {name} WITH replication = "
                f"{{'class': 'NetworkTopologyStrategy', '{DATACENTER}': {len(self.nodes)}}}"
            )
        return name

    def settings(self, keyspace: str, **more: Any) -> str:
        """Lines for messaging's settings file."""
        points = ", ".join(f'"{node.address}:{self.port}"' for node in self.nodes)
        more = {"datacenter": DATACENTER, **more}
        lines = [f'keyspace = "{keyspace}"', f"contact_points = [{points}]"]
        lines += [f'{key} = "{value}"' if isinstance(value, str) else f"{key} = {value}" for key, value in more.items()]
        return 'store = "cassandra"\n[cassandra]\n' + "\n".join(lines) + "\n"


def _secured(folder: Path, authority: Authority) -> list[str]:
    """Lines for TLS and logins, with a certificate that all nodes share."""
    folder.mkdir(parents=True, exist_ok=True)
    pair = authority.issue("cassandra", hosts=("127.0.0.1", "127.0.0.2", "127.0.0.3"))
    certificate = x509.load_pem_x509_certificate(pair.certificate.read_bytes())
    key = serialization.load_pem_private_key(pair.key.read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    store = folder / "node.p12"
    store.write_bytes(
        pkcs12.serialize_key_and_certificates(
            b"node",
            key,
            certificate,
            None,
            serialization.BestAvailableEncryption(b"loopback"),
        )
    )
    encryption = f"enabled: true, optional: false, keystore: '{store}', keystore_password: loopback, store_type: PKCS12"
    return [
        "authenticator: PasswordAuthenticator", "authorizer: CassandraAuthorizer", "role_manager: CassandraRoleManager",
        f"client_encryption_options: {{{encryption}}}",
    ]  # fmt: skip
