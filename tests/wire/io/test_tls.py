"""Mutual TLS: who is let in, under which name, and what happens when files change."""

import asyncio
import ssl

import pytest
from tests.support.pki import Authority

from fairlead_wire.io import tls


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


def issue(authority, name):
    """The three files of one side, good for localhost."""
    pair = authority.issue(name, hosts=("localhost", "127.0.0.1"))
    return tls.Files(ca=authority.certificate, cert=pair.certificate, key=pair.key)


async def greet(server_context, client_context):
    """One handshake; answers the name the server saw."""
    seen: asyncio.Queue[str | None] = asyncio.Queue()

    async def connected(reader, writer):
        seen.put_nowait(tls.peer_name(writer.get_extra_info("ssl_object").getpeercert()))
        writer.write(b"!")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=server_context)
    try:
        port = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("localhost", port, ssl=client_context)
        try:
            await reader.readexactly(1)
        finally:
            writer.close()
        return await seen.get()
    finally:
        server.close()


async def test_identity_is_the_certificates_name(authority):
    """The server learns the client's name from its certificate and nowhere else."""
    server = tls.server_context(issue(authority, "hub"))
    client = tls.client_context(issue(authority, "edge-1"))
    assert await greet(server, client) == "edge-1"


async def test_another_authority_is_refused(authority, tmp_path):
    """A certificate of a foreign authority does not get in."""
    (tmp_path / "other").mkdir()
    stranger = Authority(tmp_path / "other", "another authority")
    server = tls.server_context(issue(authority, "hub"))
    files = issue(stranger, "edge-1")
    files.ca = authority.certificate
    with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
        await greet(server, tls.client_context(files))


async def test_no_certificate_is_refused(authority):
    """Knowing the authority is not enough."""
    bare = ssl.create_default_context(cafile=str(authority.certificate))
    with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
        await greet(tls.server_context(issue(authority, "hub")), bare)


async def test_replaced_files_serve_new_handshakes(authority):
    """A renewed certificate needs no restart."""
    files = issue(authority, "edge-1")
    client = tls.client_context(files)
    server = tls.server_context(issue(authority, "hub"))
    assert await greet(server, client) == "edge-1"
    assert not files.changed()
    renewed = issue(authority, "edge-1-renewed")
    renewed.cert.replace(files.cert)
    renewed.key.replace(files.key)
    assert files.changed()
    files.load_into(client)
    assert await greet(server, client) == "edge-1-renewed"


def test_a_file_that_does_not_work_is_named(authority, tmp_path):
    """The operator reads which file, not a stack trace."""
    files = issue(authority, "hub")
    files.key = tmp_path / "missing.key"
    with pytest.raises(tls.TlsFilesError, match=r"missing\.key"):
        tls.server_context(files)


def test_no_name_is_no_identity():
    """A certificate without any name identifies nobody."""
    assert tls.peer_name(None) is None
    assert tls.peer_name({"subject": ()}) is None
    assert tls.peer_name({"subjectAltName": (("DNS", "edge-9"),)}) == "edge-9"
