"""The folder as a join left it, finished or not."""

from __future__ import annotations

from pathlib import Path

from tests.support.joining.pki import Authority

from fairlead_cli.doctor.device import certificates
from fairlead_cli.doctor.device.certificates import IdentityFolder
from fairlead_edge.io.identity.identity_files import IdentityFiles, Pending


def test_nothing_then_begun_then_joined_then_damaged(tmp_path: Path) -> None:
    """Each step, in the order in which a device goes through them."""
    files = IdentityFiles.of(tmp_path)
    link = str(files.link)
    assert certificates.read_identity(tmp_path) == IdentityFolder(link=link)
    issued = Authority(tmp_path / "authority").issue("shop-17")
    key = issued.key.read_bytes()
    files.make_folder()
    files.keep_pending(Pending(key=key, request=b"request", purpose="renew"))
    assert not certificates.read_identity(tmp_path).unfinished
    files.keep_pending(Pending(key=key, request=b"request", purpose="join abcdefghij shop-17"))
    assert certificates.read_identity(tmp_path) == IdentityFolder(link=link, unfinished=True)
    pair = files.add(key, issued.certificate.read_bytes())
    files.use(pair)
    files.drop_pending()
    assert certificates.read_identity(tmp_path) == IdentityFolder(link=link, current=pair.path.name)
    pair.path.unlink()
    assert "No such file" in certificates.read_identity(tmp_path).error
