"""Every command, every option, with input that cannot be meant: a sentence, the right exit code, never a traceback."""

from __future__ import annotations

import http.server
import socket
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from fairlead_cli import main
from fairlead_messaging.client import retry

ROOMS = ("hub", "edge", "messaging", "ingest")
TEXTS = ("", "\n", "x" * 5000, "☃", "\udcff", "../../etc", "a b", "-")
FOREVER = "9" * 30
FINE = {("nodes", "seconds", FOREVER), ("nodes", "seconds", "1e400")}
"""What is asked for in earnest, and would take its time.  Another table to backfill into needs Spark to be refused."""
NUMBERS = ("x", "-1", "1e400", "nan", "-inf", FOREVER, "", "0x1")
FILES = {
    "empty": b"",
    "binary": bytes(range(256)) * 4,
    "brackets": b"[" * 5000,
    "broken.toml": b'messaging_url = "http://127.0.0.1:9"\nx = [\n',
    "wrong.toml": b"messaging_url = 5\nhttp_listen = [1]\ntls_ca = 3\nsecurity = 7\n",
    "tables.toml": b"[messaging_url]\nx = 1\n[http_listen]\n[tls_ca]\n",
    "kubeconfig": b"apiVersion: v1\nkind: Config\nclusters: 5\ncontexts: [3]\n",
    "certificates": b"""apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://127.0.0.1:9", certificate-authority-data: bm9uc2Vuc2U=}}]
users: [{name: u, user: {client-certificate-data: eA==, client-key-data: eA==}}]
""",
    "list.yaml": b"- a\n- b\n",
    "tab.yaml": b"a:\n\t- b: {\n",
    "deep.yaml": b"{a: " * 3000,
    "alias.yaml": b"a: &a [*a]\n",
    "null.json": b"null",
}
"""What people hand over by mistake."""


class Garbler(http.server.BaseHTTPRequestHandler):
    """A program that speaks HTTP and is none of ours."""

    def do_GET(self) -> None:
        status, _, body = self.server.answers.partition(" ")  # type: ignore[attr-defined]
        self.send_response(int(status))
        self.send_header("Content-Type", "text/html")
        self.send_header("Location", "http://127.0.0.1:9/")
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    do_POST = do_PUT = do_DELETE = do_GET

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def urls() -> Iterator[dict[str, str]]:
    """Addresses that are none, or at which another program answers."""
    servers = []
    found = {
        "empty": "", "word": "hub", "scheme": "ftp://127.0.0.1", "no host": "http://", "port": "http://127.0.0.1:99999",
        "bracket": "http://[::1", "blank": "http://a b", "newline": "http://127.0.0.1:9/\nX: 1", "refused": "http://127.0.0.1:9",
        "snow": "http://☃", "half": "http://\udcff",
    }  # fmt: skip
    for name, answers in (
        ("html", "200 <html>hello</html>"), ("list", "200 [1]"), ("object", '200 {"a": 1}'), ("text", '200 "x"'),
        ("null", "200 null"), ("deep", "200 " + "[" * 5000), ("missing", "404 nope"), ("broken", "500 <html>"),
        ("moved", "302 "), ("odd", '418 {"error": 7}'),
    ):  # fmt: skip
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Garbler)
        server.answers = answers  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        found[name] = f"http://127.0.0.1:{server.server_address[1]}"
    listener = socket.create_server(("127.0.0.1", 0))

    def babble() -> None:
        while True:
            try:
                accepted, _ = listener.accept()
            except OSError:
                return
            with accepted:
                accepted.recv(65_536)
                accepted.sendall(b"220 mail.example ESMTP\r\n")

    threading.Thread(target=babble, daemon=True).start()
    found["mail"] = f"http://127.0.0.1:{listener.getsockname()[1]}"
    yield found
    listener.shutdown(socket.SHUT_RDWR)  # else the thread would wait in accept() for ever
    listener.close()
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("bad")
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    found = {name: str(folder / name) for name in FILES}
    return {**found, "missing": str(folder / "no" / "file"), "folder": str(folder)}


def leaves(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if isinstance(command, click.Group):
        for name in command.commands:
            yield from leaves(command.commands[name], (*path, name))
    else:
        yield path, command


COMMANDS = dict(leaves(main.build()))


def good(path: tuple[str, ...], folder: Path) -> dict[str, str]:
    """Values for what a command needs, by parameter; so that one bad value at a time is tried."""
    ingest = folder / "ingest.toml"
    ingest.write_text(
        f'messaging_url = "http://127.0.0.1:9"\nsecurity = "insecure"\ntopics = ["a/b"]\n'
        f'table = "{folder}/table"\ncheckpoint = "{folder}/checkpoint"\n'
    )
    manifest = folder / "routes.json"
    manifest.write_text('{"schemaVersion": "1.1", "routes": {}, "storeAndForwardConfiguration": {"timeToLiveSecs": 1}}')
    found = {
        "topic": "a/b", "target": "a/c", "payloads": "x", "name": "n", "message_id": "0" * 40, "pointer": "1",
        "manifest": str(manifest), "object_name": "configmap/x", "node": "edge-1", "out": str(folder / "out.html"),
    }  # fmt: skip
    if path[0] == "ingest":
        found["config"] = str(ingest)
    if path[:2] == ("topics", "subscriptions"):
        found["url"] = "http://127.0.0.1:9/"
    if path[0] in ("status", "explain"):
        found["hub"] = "http://127.0.0.1:9"
    if path == ("bench", "nodes"):
        found |= {"url": "ws://127.0.0.1:9", "seconds": "0.1", "count": "1"}
    return found


def arguments(command: click.Command, values: dict[str, str]) -> list[str]:
    """A command line with these values; options that are not needed are left out unless they are given."""
    options, positional = [], []
    for parameter in command.params:
        value = values.get(parameter.name or "")
        if value is None:
            continue
        if isinstance(parameter, click.Argument):
            positional.append(value)
        else:
            options += [max(parameter.opts, key=len), value]
    return [*options, "--", *positional] if positional else options


def bad_values(parameter: click.Parameter, files: dict[str, str], urls: dict[str, str]) -> list[str]:
    kind = parameter.type
    if isinstance(kind, click.Path):
        return [*files.values(), "\udcff", "x" * 5000]
    if isinstance(kind, click.Choice):
        return ["none-of-these", ""]
    if parameter.name in ("hub", "url"):
        return [*urls.values(), *TEXTS]
    if isinstance(kind, (click.IntRange, click.FloatRange)) or kind in (click.INT, click.FLOAT):
        return list(NUMBERS)
    return [*TEXTS, "{", "[]", "null", '{"retries_max": "x"}', "[" * 5000, "9" * 40, "9999-99-99", "-5m", "99999999d"]


def run(line: list[str], stdin: bytes = b"") -> Result:
    return CliRunner(env={"KUBECONFIG": "", "HOME": "/nonexistent"}).invoke(main.build(), line, input=stdin)


def judge(line: list[str], done: Result) -> str:
    """What is wrong with how it ended; "" when nothing is."""
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        return f"{line}: " + "".join(traceback.format_exception(done.exception))[-1500:]
    if done.exit_code not in (0, 1, 2):
        return f"{line}: exit {done.exit_code}"
    if "Traceback" in done.output:
        return f"{line}: {done.output[-500:]}"
    if done.exit_code and not done.output.strip():
        return f"{line}: exit {done.exit_code} without a word"
    return ""


@pytest.mark.slow
def test_no_option_of_topics_itself_breaks_it(
    files: dict[str, str], urls: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the service is and who we are, before any of its commands."""
    monkeypatch.setattr(retry, "PATIENT", None)
    group = main.build().commands["topics"]
    wrong: list[str] = []
    for parameter in group.params:
        for value in bad_values(parameter, files, urls):
            option = max(parameter.opts, key=len)
            secure = ["topics", "--url", "https://127.0.0.1:9", option, value, "show", "x"]
            for line in (["topics", option, value, "list"], secure):
                wrong += filter(None, [judge(line, run(line))])
    assert not wrong, f"{len(wrong)} of them:\n" + "\n".join(wrong[:5])


@pytest.mark.process
@pytest.mark.verify
@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_no_option_of_any_command_breaks_it(
    path: tuple[str, ...], files: dict[str, str], urls: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(retry, "PATIENT", None)  # no service comes back here
    command = COMMANDS[path]
    wrong = []
    for parameter in command.params:
        if isinstance(parameter, click.Option) and (parameter.is_flag or parameter.is_eager):
            continue
        for value in bad_values(parameter, files, urls):
            if (path[-1], parameter.name, value) in FINE or (path[-1], parameter.name) == ("backfill", "into"):
                continue
            values = {**good(path, tmp_path), str(parameter.name): value}
            if parameter.name in ("kubeconfig", "config") and path[0] in ("status", "explain"):
                del values["hub"]  # which would win
            line = [*path, *arguments(command, values)]
            if fault := judge(line, run(line)):
                wrong.append(fault)
    assert not wrong, f"{len(wrong)} of them:\n" + "\n".join(wrong[:5])
