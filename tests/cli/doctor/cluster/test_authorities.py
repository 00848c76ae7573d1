"""Certificates in Secrets: by their public halves alone."""

from __future__ import annotations

import base64
import datetime
from pathlib import Path

from tests.support.joining.pki import Authority

from fairlead_cli.doctor.cluster.installation import judge_secrets


def test_life(tmp_path: Path) -> None:
    """Good ones are counted, the ended and the unreadable are named; the key is not looked at."""
    authority = Authority(tmp_path)
    old = authority.issue("old", valid=datetime.timedelta(seconds=-1))
    data = {
        "ca.crt": base64.b64encode(authority.certificate.read_bytes()).decode(),
        "tls.crt": base64.b64encode(old.certificate.read_bytes()).decode(),
        "link.crt": "nonsense",
        "tls.key": "never read",
    }
    secret = {"metadata": {"namespace": "fairlead", "name": "hub"}, "data": data}
    found = list(judge_secrets([secret], datetime.datetime.now(datetime.UTC)))
    assert [each.level for each in found] == ["problem", "problem", "ok"]
    assert "tls.crt of Secret fairlead/hub expired on" in found[0].message
    assert found[2].message.startswith("1 certificates")
