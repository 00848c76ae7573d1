"""Access as an application in a cluster meets it: the program itself, a real API server, tokens it really made."""

from __future__ import annotations

import http.client
import json
import secrets
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.joining.pki import Authority
from tests.support.kube.cluster import Cluster
from tests.support.processes import Running, free_ports, start, wait_until
from tests.support.topics.messaging import b64

UP_SECONDS = 100.0


class Program:
    """`fairlead messaging run` over mutual TLS, with a table, and tokens checked by the cluster."""

    def __init__(self, folder: Path, cluster: Cluster, access: str) -> None:
        self.port, self.health = free_ports(2)
        self.authority = Authority(folder / "pki")
        pair = self.authority.issue("messaging", hosts=("127.0.0.1",))
        self._log = folder / "messaging.log"
        self._config = folder / "messaging.toml"
        self._config.write_text(
            f'http_listen = "127.0.0.1:{self.port}"\nhealth_listen = "127.0.0.1:{self.health}"\n'
            f'data_dir = "{folder / "data"}"\ntls_ca = "{self.authority.certificate}"\n'
            f'tls_cert = "{pair.certificate}"\ntls_key = "{pair.key}"\n'
            f'[token_review]\nkubeconfig = "{cluster.kubeconfig}"\n{access}'
        )
        self.running: Running | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "fairlead_cli.main", "messaging", "run", "--config", str(self._config)]
        self.running = running = start("messaging", command, self._log)
        wait_until("messaging is up", self._is_up, seconds=UP_SECONDS, describe=running.tail)

    def _is_up(self) -> bool:
        assert self.running is not None
        self.running.require_alive()
        connection = http.client.HTTPConnection("127.0.0.1", self.health, timeout=10)
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200

    def ask(self, method: str, path: str, body: Any = None, *, token: str = "", name: str = "") -> tuple[int, Any]:
        """With a token, or with a certificate of this name, or with neither."""
        context = ssl.create_default_context(cafile=str(self.authority.certificate))
        if name:
            pair = self.authority.issue(name)
            context.load_cert_chain(pair.certificate, pair.key)
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=context, timeout=60)
        headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
        connection.request(method, f"/v1{path}", json.dumps(body) if body is not None else None, headers)
        answer = connection.getresponse()
        raw = answer.read()
        connection.close()
        return answer.status, json.loads(raw) if raw else None

    @property
    def log(self) -> str:
        return self._log.read_text()


@pytest.fixture
def program(tmp_path: Path, cluster: Cluster, namespace: str) -> Iterator[Program]:
    access = (
        f'[[access]]\nsubject = "serviceaccount:{namespace}:till"\nverbs = ["publish", "consume"]\n'
        'topics = ["shop/*"]\n'
        '[[access]]\nsubject = "administrator"\nverbs = ["publish", "consume", "administer"]\ntopics = ["*"]\n'
    )
    made = Program(tmp_path, cluster, access)
    made.start()
    yield made
    assert made.running is not None
    made.running.kill()


def test_a_service_account_publishes_with_a_token_made_for_messaging(
    program: Program, cluster: Cluster, namespace: str
) -> None:
    """Not with one for the API server, nor as another account, nor once its account is gone; none is in the log."""

    def made(account: str, *options: str) -> str:
        return cluster.kubectl("create", "token", account, "-n", namespace, *options).strip()

    for account in ("till", "other"):
        cluster.kubectl("create", "serviceaccount", account, "-n", namespace)
    ours = "--audience=fairlead-messaging"
    good, later, other = made("till", ours), made("till", ours), made("other", ours)
    for_the_api = made("till")
    body = {"messages": [b64("sale")]}
    publish = "/namespaces/shop/topics/sales/publish"
    assert program.ask("PUT", "/namespaces/shop/topics/sales", name="administrator")[0] == 200
    assert program.ask("POST", publish, body, token=good) == (200, None)
    assert program.ask("POST", publish, body, token=other)[0] == 403
    assert program.ask("POST", publish, body, token=for_the_api)[0] == 401
    assert program.ask("POST", publish, body, token=good[:-4] + "AAAA")[0] == 401
    assert program.ask("POST", publish, body)[0] == 401
    status, refused = program.ask("DELETE", "/namespaces/shop/topics/sales", token=good)
    assert (status, refused["error"]["verb"], refused["error"]["topic"]) == (403, "administer", "shop/sales")
    cluster.kubectl("delete", "serviceaccount", "till", "-n", namespace)
    assert program.ask("POST", publish, body, token=later)[0] == 401
    assert "access_refused" in program.log
    assert not [token for token in (good, later, other, for_the_api) if token.rpartition(".")[2] in program.log]


def test_a_transaction_keeps_its_owner_over_a_restart(program: Program) -> None:
    """Killed in between: the record says whose it is."""
    assert program.ask("PUT", "/namespaces/shop/topics/sales", name="administrator")[0] == 200
    status, begun = program.ask("POST", "/transactions", {}, name="administrator")
    pointer = begun["transactionWritePointer"]
    body = {"messages": [b64("sale")], "transactionWritePointer": pointer}
    assert program.ask("POST", "/namespaces/shop/topics/sales/publish", body, name="administrator")[0] == 200
    assert program.running is not None
    program.running.kill()
    program._config.write_text(
        program._config.read_text()
        + f'[[access]]\nsubject = "thief-{secrets.token_hex(2)}"\nverbs = ["publish"]\ntopics = ["*"]\n'
    )
    thief = program._config.read_text().rpartition('subject = "')[2].partition('"')[0]
    program.start()
    assert program.ask("POST", f"/transactions/{pointer}/commit", {}, name=thief)[0] == 403
    status, answer = program.ask("POST", f"/transactions/{pointer}/commit", {}, name="administrator")
    assert (status, answer["state"]) == (200, "committed")


def test_grants_change_without_a_restart(program: Program) -> None:
    sales, text = "/namespaces/shop/topics/sales", program._config.read_text()
    assert program.ask("PUT", sales, name="office")[0] == 403
    entry = '[[access]]\nsubject = "office"\nverbs = ["administer"]\ntopics = ["shop/*"]\n'
    program._config.write_text(text + entry)
    wait_until("the grant counts", lambda: program.ask("PUT", sales, name="office")[0] == 200, seconds=UP_SECONDS)
    program._config.write_text(text + entry.replace("administer", "everything"))
    wait_until("it is said", lambda: "access_kept" in program.log, seconds=UP_SECONDS)
    assert program.ask("GET", sales, name="office")[0] == 200
    program._config.write_text(text)
    wait_until("it is taken away", lambda: program.ask("GET", sales, name="office")[0] == 403, seconds=UP_SECONDS)
