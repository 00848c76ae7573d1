"""Services with Iceberg's REST API as strangers may be: slow, with properties of their own, at another address."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from fairlead_ingest import errors
from fairlead_ingest.io.table.iceberg import catalogs, file_io
from fairlead_ingest.table.catalog import Catalog
from fairlead_ingest.table.store_path import FROM_ENVIRONMENT

TOKEN = b'{"access_token": "t", "token_type": "bearer", "expires_in": 60}'
Answers = Callable[[str], tuple[int, dict[str, str], bytes]]
Serve = Callable[[Answers], str]


@pytest.fixture
def asked() -> list[tuple[str, str]]:
    """(path, body) of each request so far."""
    return []


@pytest.fixture
def serve(asked: list[tuple[str, str]]) -> Iterator[Serve]:
    """A service on a thread of this process."""
    servers: list[ThreadingHTTPServer] = []

    def start(answers: Answers) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                said = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
                asked.append((self.path, said))
                status, headers, body = answers(self.path)
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def refused(catalog: Catalog) -> errors.Stop | errors.Wait:
    with pytest.raises((errors.Stop, errors.Wait)) as error:
        catalogs.connect(catalog, FROM_ENVIRONMENT)
    assert isinstance(error.value, errors.Stop | errors.Wait)
    return error.value


def with_credential(folder: Path, uri: str, **more: Any) -> Catalog:
    (folder / "credential").write_text("job:hush-hush\n")
    return Catalog(type="rest", uri=uri, credential_file=str(folder / "credential"), **more)


def test_a_token_comes_from_its_file_and_is_in_no_sentence(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("hush-hush\n")
    uri = serve(lambda _: (403, {}, b'{"error": {"message": "not hush-hush", "type": "x", "code": 403}}'))
    error = refused(Catalog(type="rest", uri=uri, token_file=str(tmp_path / "token")))
    assert error.code == errors.CATALOG_DENIED and "hush" not in str(error)


def test_what_a_service_says_of_itself_changes_nothing_of_how_files_are_read(serve: Serve) -> None:
    """A class to be loaded, other credentials, another key of the catalog's certificate."""
    taken = {"prefix": "plant", "rest-page-size": "7"}
    other = {"py-io-impl": "os.path", "fairlead.storage": "{}", "ssl": "x", "token": "t", "auth": {"type": "basic"}}
    said = {"defaults": {}, "overrides": {**taken, **{key: json.dumps(value) for key, value in other.items()}}}
    opened = catalogs.connect(
        Catalog(type="rest", uri=serve(lambda _: (200, {}, json.dumps(said).encode()))), FROM_ENVIRONMENT
    )
    assert taken.items() <= opened.properties.items()
    assert file_io.properties(FROM_ENVIRONMENT).items() <= opened.properties.items()
    assert not {"ssl", "token", "auth"} & set(opened.properties)


def test_a_service_that_names_a_way_in_the_clear_for_itself_is_refused(serve: Serve) -> None:
    """With the next request the token would go there."""
    said = b'{"defaults": {}, "overrides": {"uri": "http://elsewhere.example.com"}}'
    error = refused(Catalog(type="rest", uri=serve(lambda _: (200, {}, said))))
    assert error.code == errors.CATALOG_UNFIT and "says that its uri must be https://" in str(error)


@pytest.mark.parametrize("status", [302, 307, 308])
def test_a_secret_is_not_sent_on_to_another_address(
    serve: Serve, asked: list[tuple[str, str]], tmp_path: Path, status: int
) -> None:
    elsewhere = serve(lambda _: (200, {}, TOKEN))
    error = refused(with_credential(tmp_path, serve(lambda path: (status, {"Location": elsewhere + path}, b""))))
    assert error.code == errors.CATALOG_UNFIT and "names another address, which is not followed" in str(error)
    assert len(asked) == 1


def test_a_service_of_tokens_that_does_not_answer_is_not_waited_for_without_end(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogs, "REQUEST_SECONDS", 0.2)
    over = threading.Event()

    def silent(_: str) -> tuple[int, dict[str, str], bytes]:
        over.wait(60)
        return 200, {}, TOKEN

    error = refused(with_credential(tmp_path, serve(silent)))
    over.set()
    assert isinstance(error, errors.Wait) and error.code == errors.CATALOG_AWAY


def test_a_scope_is_asked_for_where_it_is_set(serve: Serve, asked: list[tuple[str, str]], tmp_path: Path) -> None:
    """From the service of tokens that is named, else from the catalog itself."""
    tokens = serve(lambda _: (200, {}, TOKEN))
    uri = serve(lambda path: (200, {}, TOKEN if "oauth" in path else b'{"defaults": {}, "overrides": {}}'))
    catalogs.connect(with_credential(tmp_path, uri), FROM_ENVIRONMENT)
    assert asked[0][0] == "/v1/oauth/tokens" and "scope=catalog" in asked[0][1]
    asked.clear()
    named = with_credential(tmp_path, uri, oauth2_uri=f"{tokens}/token", oauth2_scope="PRINCIPAL_ROLE:ALL")
    catalogs.connect(named, FROM_ENVIRONMENT)
    assert asked[0][0] == "/token" and "scope=PRINCIPAL_ROLE%3AALL" in asked[0][1]
    assert "client_id=job&client_secret=hush-hush" in asked[0][1]
