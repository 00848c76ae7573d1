"""A token that says who a client is."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.support.joining.pki import Authority
from tests.support.kube.token_reviews import token, token_reviews
from tests.support.topics.messaging_access import entry, guarded

from fairlead_messaging.client.errors import NotAllowed
from fairlead_messaging.client.io.async_client import AsyncClient
from fairlead_messaging.client.io.connections import LOOK_SECONDS, Tls, TokenFile
from fairlead_messaging.client.io.sync_client import Client
from fairlead_wire.errors import LocalError


def test_a_replaced_token_is_used_and_one_that_vanished_for_a_moment_stays(tmp_path: Path) -> None:
    """Kubernetes replaces it while the program runs."""
    now, path = 0.0, tmp_path / "token"
    path.write_text("first\n")
    file = TokenFile(str(path), steady=lambda: now)
    path.write_text("second\n")
    assert file.header() == {"Authorization": "Bearer first"}
    now += LOOK_SECONDS
    assert file.header() == {"Authorization": "Bearer second"}
    path.unlink()
    now += LOOK_SECONDS
    assert file.header() == {"Authorization": "Bearer second"}


@pytest.mark.parametrize("content", [b"", b" \n", b"two words", b"a\r\nX-Header: b", b"x" * 9000, b"\xff"])
def test_what_is_no_token_is_refused_at_once(tmp_path: Path, content: bytes) -> None:
    """It becomes part of a header."""
    path = tmp_path / "token"
    path.write_bytes(content)
    with pytest.raises(LocalError, match="is no token"):
        TokenFile(str(path))
    with pytest.raises(LocalError, match="missing"):
        TokenFile(str(tmp_path / "missing"))


async def test_both_clients_need_no_certificate_where_they_have_a_token(tmp_path: Path) -> None:
    """They check the service's certificate all the same."""
    till = token("till")
    path = tmp_path / "token"
    path.write_text(till)
    async with token_reviews(tmp_path / "api") as api:
        api.users = {till: "system:serviceaccount:shop:till"}
        account = entry("serviceaccount:shop:till", "publish", "default/a")
        review = {"kubeconfig": str(api.kubeconfig)}
        async with guarded(tmp_path / "messaging", account, token_review=review) as service:
            await service.create("default/a")
            tls = Tls(ca=str(service.authority.certificate), token_file=str(path))
            async with AsyncClient(service.url, tls=tls) as client:
                await client.publish("default", "a", [b"1"])
                with pytest.raises(NotAllowed):
                    await client.publish("default", "b", [b"1"])

            def publish() -> None:
                with Client(service.url, tls=tls) as client:
                    client.publish("default", "a", [b"2"])

            await asyncio.to_thread(publish)
            assert len((await service.poll("administrator", "default/a")).body) == 2


def test_a_token_is_never_sent_without_tls(tmp_path: Path) -> None:
    """A listener could use it."""
    path = tmp_path / "token"
    path.write_text("a.b.c")
    ca = Authority(tmp_path / "pki").certificate
    tls = Tls(ca=str(ca), token_file=str(path))
    assert AsyncClient("http://127.0.0.1:1", tls=tls)._token is None
    assert Client("http://127.0.0.1:1", tls=tls)._connections._token is None
