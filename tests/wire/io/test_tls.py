"""Mutual TLS: who is let in, under which name, and what happens when files change."""

import asyncio
import datetime
import io
import os
import ssl

import pytest
from tests.support.joining.pki import Authority

from fairlead_wire.io import logs, tls
from fairlead_wire.log_limiter import LogLimiter

REFUSED = (ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)


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


async def test_another_authority_no_certificate_and_an_expired_one_are_refused(authority, tmp_path):
    (tmp_path / "other").mkdir()
    foreign = issue(Authority(tmp_path / "other", "another authority"), "edge-1")
    foreign.ca = authority.certificate
    late = authority.issue("edge-1", valid=-datetime.timedelta(minutes=1))
    expired = tls.Files(ca=authority.certificate, cert=late.certificate, key=late.key)
    bare = ssl.create_default_context(cafile=str(authority.certificate))
    server = tls.server_context(issue(authority, "hub"))
    for client in (tls.client_context(foreign), bare, tls.client_context(expired)):
        with pytest.raises(REFUSED):
            await greet(server, client)


async def test_replaced_files_serve_new_handshakes(authority):
    files = issue(authority, "edge-1")
    client = tls.ClientTls(files)
    server = tls.server_context(issue(authority, "hub"))
    assert await greet(server, client.context()) == "edge-1"
    renewed = issue(authority, "edge-1-renewed")
    renewed.cert.replace(files.cert)
    renewed.key.replace(files.key)
    assert await greet(server, client.context()) == "edge-1-renewed"


async def test_an_authority_that_was_taken_out_opens_nothing(authority, tmp_path):
    """That is how all its certificates are revoked at once: no restart, whether the client names the server or not."""
    files, old = both(authority, tmp_path, "hub")
    server = tls.server_context(files)
    stays, goes = tls.client_context(issue(authority, "edge-1")), issue(old, "edge-2")
    goes.ca = authority.certificate
    goes = tls.client_context(goes)
    assert [await greet(server, client) for client in (stays, goes)] == ["edge-1", "edge-2"]
    files.ca.write_bytes(authority.certificate.read_bytes())
    tls.renew(server, files)
    assert await greet(server, stays) == "edge-1"
    with pytest.raises(REFUSED):
        await greet(server, goes)


async def test_a_bad_replacement_changes_nothing(authority):
    """Files are replaced one after the other: what does not fit yet is not used."""
    files = issue(authority, "hub")
    server = tls.server_context(files)
    whole = files.key.read_bytes()
    files.key.write_bytes(whole[:50])
    with pytest.raises(tls.TlsFilesError):
        tls.renew(server, files)
    assert await greet(server, tls.client_context(issue(authority, "edge-1"))) == "edge-1"


async def test_a_cross_signed_authority_leads_clients_from_the_old_one_to_the_new(tmp_path):
    """The server sends it: to those who know only the old one, having been away, and to those who know only the new."""
    old, new = Authority(tmp_path / "old", "old"), Authority(tmp_path / "new", "new")
    cross = Authority(tmp_path / "cross", "new", signer=old, private_key=new._key)
    files = issue(new, "hub")
    alone = tls.server_context(files)
    files.cert.write_bytes(files.cert.read_bytes() + cross.certificate.read_bytes())
    chained = tls.server_context(files)
    client = issue(new, "edge-1")
    for ca, server, is_served in ((old, alone, False), (old, chained, True), (new, chained, True)):
        client.ca = ca.certificate
        if is_served:
            assert await greet(server, tls.client_context(client)) == "edge-1"
        else:
            with pytest.raises(REFUSED):
                await greet(server, tls.client_context(client))


def both(authority, tmp_path, name):
    """Files whose authorities are this one and another; the other's certificate."""
    (tmp_path / "old").mkdir()
    old = Authority(tmp_path / "old", "the old authority")
    files = issue(authority, name)
    files.ca = tmp_path / "trusted.crt"
    files.ca.write_bytes(authority.certificate.read_bytes() + old.certificate.read_bytes())
    return files, old


async def test_a_client_forgets_an_authority_with_the_next_connection(authority, tmp_path):
    """What it signed is refused from then on; no program has to be started again."""
    files, old = both(authority, tmp_path, "edge-1")
    client = tls.ClientTls(files)
    here, there = tls.server_context(issue(authority, "hub")), tls.server_context(issue(old, "old-hub"))
    there.verify_mode = ssl.CERT_NONE
    await greet(here, client.context())
    await greet_any(there, client.context())
    assert client.context() is client.context(), "as long as no file changes"
    files.ca.write_bytes(authority.certificate.read_bytes())
    await greet(here, client.context())
    with pytest.raises(ssl.SSLError, match="refused here"):
        await greet_any(there, client.context())


async def greet_any(server_context, client_context):
    """One handshake with a server that asks for no certificate."""

    async def connected(reader, writer):
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=server_context)
    try:
        port = server.sockets[0].getsockname()[1]
        _, writer = await asyncio.open_connection("localhost", port, ssl=client_context)
        writer.close()
    finally:
        server.close()


async def test_a_bad_replacement_leaves_a_client_as_it_was(authority, tmp_path):
    files, old = both(authority, tmp_path, "edge-1")
    client = tls.ClientTls(files)
    before = client.context()
    stream = io.StringIO()
    logs.configure("edge", stream=stream)
    files.ca.write_bytes(b"half of it")
    assert client.context() is before and client.context() is before
    assert stream.getvalue().count("tls_reload_failed") == 1
    files.ca.write_bytes(old.certificate.read_bytes())
    assert client.context() is not before


def test_a_file_of_the_same_size_and_time_behind_a_link_is_another(authority, tmp_path):
    """Certificates are swapped by a link: what it leads to may look alike."""
    files = issue(authority, "edge-1")
    first, second, link = files.cert, tmp_path / "second.crt", tmp_path / "node.crt"
    second.write_bytes(first.read_bytes())
    os.utime(second, ns=(first.stat().st_atime_ns, first.stat().st_mtime_ns))
    link.symlink_to(first)
    linked = tls.Files(ca=files.ca, cert=link, key=files.key)
    assert not linked.changed()
    link.unlink()
    link.symlink_to(second)
    assert linked.changed() and not linked.changed()


async def test_a_listener_may_ask_for_no_certificate(authority):
    """As the node's own API, which asks for a token; it goes over to new files all the same."""
    files = issue(authority, "edge-1")
    server = tls.server_context(files, verifies_clients=False)
    tls.renew(server, files)
    await greet_any(server, ssl.create_default_context(cafile=str(authority.certificate)))
    assert server.get_ca_certs() == []


async def test_what_is_spoken_without_a_certificate_is_agreed_on(authority):
    """Also when files were replaced since; a wrong certificate is refused all the same."""
    files = issue(authority, "hub")
    server = tls.server_context(files, certificate_is_optional=True, alpn="join/1")
    for renewed in (False, True):
        if renewed:
            tls.renew(server, files)
        assert (tls.newest(server) is not server) == renewed
        for offered, agreed in (("join/1", "join/1"), ("http/1.1", ""), ("", "")):
            client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            client.load_verify_locations(authority.certificate)
            if offered:
                client.set_alpn_protocols([offered])
            spoken: asyncio.Queue[str] = asyncio.Queue()

            def connected(_, writer, spoken=spoken):
                spoken.put_nowait(tls.negotiated_protocol(writer.get_extra_info("ssl_object")))
                writer.close()

            listening = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=server)
            try:
                port = listening.sockets[0].getsockname()[1]
                reader, writer = await asyncio.open_connection("localhost", port, ssl=client)
                assert await reader.read() == b"" and await spoken.get() == agreed
                writer.close()
            finally:
                listening.close()
    assert tls.negotiated_protocol(None) == ""


def test_a_key_that_others_may_read_is_logged(authority):
    files = issue(authority, "hub")
    stream = io.StringIO()
    logs.configure("hub", stream=stream)
    tls.server_context(files)
    assert stream.getvalue() == ""
    files.key.chmod(0o644)
    tls.server_context(files)
    tls.server_context(files)
    assert stream.getvalue().count("tls_key_readable") == 1 and f"chmod 600 {files.key}" in stream.getvalue()


def test_a_file_that_does_not_work_is_named(authority, tmp_path):
    files = issue(authority, "hub")
    files.key = tmp_path / "missing.key"
    with pytest.raises(tls.TlsFilesError, match=r"^tls_key .*missing\.key: No such file or directory$"):
        tls.server_context(files)
    files.key = issue(authority, "edge-1").key
    with pytest.raises(tls.TlsFilesError, match=r"^tls_key \S+ does not belong to tls_cert \S+: give the key"):
        tls.server_context(files)
    files.key.write_text("no key")
    with pytest.raises(tls.TlsFilesError, match=r"one of them is not in PEM form$"):
        tls.server_context(files)
    files.ca = tmp_path / "none"
    with pytest.raises(tls.TlsFilesError, match=r"^tls_ca \S+: No such file or directory$"):
        tls.server_context(files)


def test_no_name_is_no_identity():
    assert tls.peer_name(None) is None
    assert tls.peer_name({"subject": ()}) is None
    assert tls.peer_name({"subjectAltName": (("DNS", "edge-9"),)}) == "edge-9"


async def test_what_is_wrong_with_our_own_certificate_is_said_at_once(authority, monkeypatch):
    for name, valid, words in (
        ("edge-1", -datetime.timedelta(minutes=1), "expired on"),
        ("edge-2", datetime.timedelta(days=30), "is the one of edge-2, not of edge-1"),
        ("edge-1", datetime.timedelta(seconds=25), "replace it"),
    ):
        monkeypatch.setattr(tls, "_reminders", LogLimiter(tls.REMINDER_SECONDS))
        pair = authority.issue(name, valid=valid)
        files = tls.Files(ca=authority.certificate, cert=pair.certificate, key=pair.key)
        assert bool(files.unfit("edge-1")) == (words != "replace it")
        stream = io.StringIO()
        logs.configure("edge", stream=stream)
        for _ in range(2):
            task = asyncio.create_task(tls.ClientTls(files).keep_loaded("edge-1"))
            await asyncio.sleep(0)
            task.cancel()
        assert len(stream.getvalue().splitlines()) == 1 and words in stream.getvalue()


def test_a_certificate_says_from_when_until_when():
    shown = {"notBefore": "Nov 22 10:00:00 2026 GMT", "notAfter": "Jan  1 00:00:00 2030 GMT"}
    assert tls.peer_times(shown) == ("2026-11-22T10:00:00Z", "2030-01-01T00:00:00Z")
    for wrong in (None, {}, {"notBefore": "soon", "notAfter": "later"}, {"notBefore": "Nov 22 10:00:00 2026 GMT"}):
        assert tls.peer_times(wrong) is None


def test_an_authority_is_named_by_its_setting(authority, tmp_path):
    pair = authority.issue("hub")
    files = tls.Files(ca=tmp_path / "none.crt", cert=pair.certificate, key=pair.key, ca_setting="identity.link_ca")
    with pytest.raises(tls.TlsFilesError, match="link_ca"):
        tls.server_context(files)


def test_files_say_when_the_certificate_ends(authority, tmp_path):
    pair = authority.issue("edge-1")
    files = tls.Files(ca=authority.certificate, cert=pair.certificate, key=pair.key)
    own = files.certificate()
    assert own is not None and files.ends() == own.not_after.timestamp() > 1.7e9
    assert tls.Files(ca=authority.certificate, cert=tmp_path / "none.crt", key=pair.key).ends() == 0.0
