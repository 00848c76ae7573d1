"""What nodes are to believe is said when its files changed, and only where it vouches for this hub."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.joining.pki import Authority

from fairlead_hub.identity.signer import AuthorityBundle
from fairlead_hub.io.identity import announcer
from fairlead_hub.io.identity.announcer import Announcer
from fairlead_wire.identity import authority_bundle


async def test_each_change_is_said_once(tmp_path: Path) -> None:
    old, new = Authority(tmp_path / "old", "old"), Authority(tmp_path / "new", "new")
    trusted, own = tmp_path / "trusted.crt", tmp_path / "own.crt"
    trusted.write_bytes(old.certificate.read_bytes())
    own.write_bytes(old.issue("hub").certificate.read_bytes())
    said: list[AuthorityBundle] = []

    def announce(bundle: AuthorityBundle) -> int:
        said.append(bundle)
        return 0

    announcing = Announcer(roots=trusted.read_bytes, own=own.read_bytes, announce=announce)
    await announcing.check()
    await announcing.check()
    assert [each.digest for each in said] == [authority_bundle.digest(trusted.read_bytes())]
    trusted.write_bytes(new.certificate.read_bytes())
    await announcing.check()
    assert len(said) == 1, "nodes would lock themselves out"
    trusted.unlink()
    await announcing.check()
    trusted.write_bytes(old.certificate.read_bytes() + new.certificate.read_bytes())
    await announcing.check()
    assert [each.authorities for each in said[1:]] == [trusted.read_bytes()]
    own.write_bytes(new.issue("hub").certificate.read_bytes())
    await announcing.check()
    assert said[-1].digest == said[-2].digest and said[-1].certificates == own.read_text()


def test_what_cannot_be_said_has_a_reason(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "one")
    roots, own = authority.certificate.read_bytes(), authority.issue("hub").certificate.read_bytes()
    wrongs = {
        "tls_ca holds no certificate": (b"", own),
        "is not signed by any authority in tls_ca": (Authority(tmp_path / "two").certificate.read_bytes(), own),
        "tls_cert is larger than": (roots, own + b"#" * authority_bundle.CHAIN_BYTES_MAX),
    }
    for sentence, files in wrongs.items():
        with pytest.raises(ValueError, match=sentence):
            announcer.read(*files)
