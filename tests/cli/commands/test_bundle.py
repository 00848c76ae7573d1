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
    """Our objects, versions, findings, logs; not one planted secret."""
    log, out = tmp_path / "hub.log", tmp_path / "case.tar.gz"
    log.write_text(f'{{"event": "link_up", "node": "act-1"}}\n{{"event": "x", "token": "{PLANTED}"}}\n')
    done = run(installed, "--out", str(out), "--log", str(log), "--hub", "http://127.0.0.1:1")
    assert done.exit_code == 0, done.output
    assert done.stdout == f"{out}\n" and "Look through it before you give it to others" in done.stderr
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
    """Exit 2; and a folder that is not there is a sentence."""
    out = tmp_path / "case.tar.gz"
    out.write_text("mine")
    done = run(installed, "--out", str(out))
    assert done.exit_code == 2 and "is there already" in done.output and out.read_text() == "mine"
    done = run(installed, "--out", str(tmp_path / "none" / "case.tar.gz"))
    assert done.exit_code == 1 and "cannot be written: No such file or directory" in done.output


def test_a_name_that_leads_nowhere_stays(tmp_path: Path) -> None:
    """A symbolic link to nothing is not ours: it is neither followed nor removed."""
    out = tmp_path / "case.tar.gz"
    out.symlink_to(tmp_path / "none")
    done = CliRunner().invoke(build(), ["bundle", "--out", str(out)])
    assert done.exit_code == 2 and "is there already: name another file" in done.output
    assert out.is_symlink()


def test_an_address_that_speaks_no_http(tmp_path: Path) -> None:
    """It is named in errors.txt, and the rest is there."""
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
