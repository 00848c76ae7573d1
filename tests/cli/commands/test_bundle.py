"""`fairlead bundle` on a real API server: what is in it, what never is, and what could not be read."""

from __future__ import annotations

import datetime
import io
import json
import socket
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.support.hubs.hub import config_map
from tests.support.kube import written_by_hand
from tests.support.kube.cluster import Cluster

from fairlead_cli.commands import bundle
from fairlead_cli.main import build

PLANTED = "hunter2hunter2"


@pytest.fixture(scope="module")
def installed(cluster: Cluster) -> Iterator[Cluster]:
    """With secrets where people leave them: in a Secret, a ConfigMap, annotations, a Pod's variables."""
    written_by_hand.install(cluster)
    written_by_hand.edge_node(cluster, "act-1", agentVersion="0.1.0")
    cluster.kubectl("annotate", "enode", "act-1", f"example.com/password={PLANTED}")
    cluster.apply(config_map("planted", "act-test", password=PLANTED))
    metadata = {"name": "planted", "namespace": "act-test", "labels": {"app.kubernetes.io/part-of": "fairlead"}}
    cluster.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"a": PLANTED}})
    container = {"name": "c", "image": "i", "env": [{"name": "DB_PASSWORD", "value": PLANTED}]}
    cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}})
    yield cluster
    cluster.kubectl("delete", "pod,secret", "planted", "-n", "act-test", "--force", "--grace-period=0")
    written_by_hand.remove(cluster)


def run(cluster: Cluster, *words: str) -> Result:
    return CliRunner().invoke(build(), ["bundle", "--kubeconfig", str(cluster.kubeconfig), *words])


def contents(path: Path) -> dict[str, str]:
    with tarfile.open(path) as archive:
        found = {}
        for entry in archive:
            file = archive.extractfile(entry)
            assert file is not None
            found[entry.name.removeprefix("fairlead-bundle/")] = io.TextIOWrapper(file).read()
    return found


def test_what_is_in_it_and_what_never_is(installed: Cluster, tmp_path: Path) -> None:
    log, out = tmp_path / "hub.log", tmp_path / "case.tar.gz"
    log.write_text(f'{{"event": "link_up", "node": "act-1"}}\n{{"event": "x", "token": "{PLANTED}"}}\n')
    done = run(installed, "--out", str(out), "--log", str(log), "--hub", "http://127.0.0.1:1")
    assert done.exit_code == 0, done.output
    assert done.stdout == f"{out}\n" and "Check its content before you share it" in done.stderr
    assert out.stat().st_mode & 0o777 == 0o600
    found = contents(out)
    assert PLANTED not in "".join(found.values())
    assert "act-1" in [each["metadata"]["name"] for each in json.loads(found["cluster/edgenodes.json"])["items"]]
    assert json.loads(found["cluster/pods.json"])["items"][0]["spec"]["containers"][0]["env"][0]["value"] == "(hidden)"
    assert json.loads(found["versions.json"])["apiServer"]["major"] == "1"
    assert json.loads(found["doctor-cluster.json"])["kind"] == "Findings"
    assert '"event": "link_up", "node": "act-1"' in found["logs/1-hub.log"]
    assert len(json.loads(found["cluster/definitions.json"])["items"]) == 6
    assert found["errors.txt"].splitlines()[0].startswith("hub/readyz.txt: ") and "3 parts" in done.stderr


def test_what_is_there_is_not_written_over(installed: Cluster, tmp_path: Path) -> None:
    out = tmp_path / "case.tar.gz"
    out.write_text("mine")
    done = run(installed, "--out", str(out))
    assert done.exit_code == 2 and "already exists" in done.output and out.read_text() == "mine"
    done = run(installed, "--out", str(tmp_path / "none" / "case.tar.gz"))
    assert done.exit_code == 1 and "cannot be written: No such file or directory" in done.output


def test_a_name_that_leads_nowhere_stays(tmp_path: Path) -> None:
    """A symbolic link to nothing is not ours: it is neither followed nor removed."""
    out = tmp_path / "case.tar.gz"
    out.symlink_to(tmp_path / "none")
    done = CliRunner().invoke(build(), ["bundle", "--out", str(out)])
    assert done.exit_code == 2 and "already exists: name another file" in done.output
    assert out.is_symlink()


def test_an_address_that_speaks_no_http(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
                connection.recv(4096)

        thread = threading.Thread(target=greet)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/metrics"
        errors: list[str] = []
        now = datetime.datetime.now(datetime.UTC)
        parts = [("hub/metrics.txt", lambda: bundle._get(url)), ("versions.json", lambda: "{}")]
        with tarfile.open(tmp_path / "case.tar.gz", "w:gz") as archive:
            bundle._write(archive, parts, errors, now)
        thread.join()
    assert list(contents(tmp_path / "case.tar.gz")) == ["versions.json", "errors.txt"]
    assert len(errors) == 1 and errors[0].startswith("hub/metrics.txt: ")


# ---- planted secrets are found in every form, and what is harmless stays ----


PLANTED_TEXT = "hunter2hunter2"
JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJodW50ZXIyIn0.aHVudGVyMg"
KEY = f"-----BEGIN EC PRIVATE KEY-----\n{PLANTED_TEXT}\n-----END EC PRIVATE KEY-----"


@pytest.mark.parametrize(
    "document",
    [
        {"password": PLANTED_TEXT},
        {"spec": [{"dbPassphrase": PLANTED_TEXT}]},
        {"env": [{"name": "MESSAGING_TOKEN", "value": PLANTED_TEXT}]},
        {"kind": "Secret", "metadata": {"name": "a"}, "data": {"a": PLANTED_TEXT}, "stringData": {"b": PLANTED_TEXT}},
        {
            "metadata": {
                "annotations": {"kubectl.kubernetes.io/last-applied-configuration": f'{{"x": "{PLANTED_TEXT}"}}'}
            }
        },
        {"args": [f"--password={PLANTED_TEXT}"]},
        {"url": f"postgres://user:{PLANTED_TEXT}@db:5432/x"},
        {"note": f"curl -H 'Authorization: Bearer {PLANTED_TEXT}'"},
        {"note": KEY},
        {"apiKey": PLANTED_TEXT},
        {"message": f"token fl1-abc-{PLANTED_TEXT}-pin was used twice"},
        {"args": ["--password", PLANTED_TEXT]},
        {"command": ["sh", "-c", f"run --api-key {PLANTED_TEXT}"]},
        {"tokens": [PLANTED_TEXT]},
        {"env": [{"name": "DB_PASS", "value": PLANTED_TEXT}]},
        {"kind": "Secret", "data": {"a": PLANTED_TEXT}},
    ],
)
def test_in_documents(document: dict[str, object]) -> None:
    """By the key's name, by what stands beside it, and by its own form."""
    assert PLANTED_TEXT not in json.dumps(bundle.document(document))


@pytest.mark.parametrize(
    "line",
    [
        f"password={PLANTED_TEXT}",
        f'{{"event": "login", "token": "{PLANTED_TEXT}"}}',
        f"AWS_SECRET_ACCESS_KEY: {PLANTED_TEXT}",
        f"authorization: bearer {PLANTED_TEXT}",
        f"Authorization: Token {PLANTED_TEXT}",
        f'{{"headers": {{"Cookie": "session={PLANTED_TEXT}"}}}}',
        f'{{"body": "{{\\"password\\": \\"{PLANTED_TEXT}\\"}}"}}',
        f'password="a\\"{PLANTED_TEXT}"',
        f"GET /hook?sig={PLANTED_TEXT}",
        f"started with --token {PLANTED_TEXT}",
        f"https://user:{PLANTED_TEXT}@example.com/x",
        KEY,
        KEY.partition("-----END")[0],
    ],
)
def test_in_texts(line: str) -> None:
    assert PLANTED_TEXT not in bundle.text(f"before\n{line}\nafter")
    assert bundle.text(f"before\n{line}").startswith("before\n")
    assert JWT not in bundle.text(f"found {JWT} in it")


def test_what_is_harmless_stays() -> None:
    """Names of Secrets, numbers, reasons, addresses: without these a bundle would help in nothing."""
    kept = {
        "metadata": {"name": "edge-1", "resourceVersion": "77"},
        "volumes": [{"secret": {"secretName": "hub-tls"}}],
        "status": {"connected": True, "objectsHeld": 7, "message": "parked: the store is full"},
        "hub": "wss://hub.example.com:10000",
    }
    assert bundle.document(kept) == kept
    line = "2026-11-22 link_down reason=refused hub=wss://hub.example.com:10000"
    assert bundle.text(line) == line


@pytest.mark.slow
@pytest.mark.parametrize("word", ["a", "token", "--token", "eyJ-", "x://", "-----BEGIN "])
def test_a_line_of_any_length(word: str) -> None:
    """A log may hold a file in base64 on one line: the time must grow as its length does, not as its square."""
    line = word * (200_000 // len(word))
    assert bundle.text(line) == line


def test_names_of_secrets_stay() -> None:
    kept = {
        "imagePullSecrets": [{"name": "registry"}],
        "involvedObject": {"kind": "Secret", "name": "hub-tls"},
        "args": ["--token-file", "/etc/fairlead/token", "--node", "edge-1"],
    }
    assert bundle.document(kept) == kept


def test_absurd_depth() -> None:
    deep: object = "x"
    for _ in range(500):
        deep = [deep]
    assert bundle.HIDDEN in json.dumps(bundle.document(deep))
