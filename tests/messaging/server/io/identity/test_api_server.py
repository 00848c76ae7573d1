"""Where the Kubernetes API is."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.joining.pki import Authority

from fairlead_messaging.server.io import token_reviewer
from fairlead_messaging.server.io.token_reviewer import NoApiServer


def kubeconfig(folder: Path, cluster: dict[str, Any], user: dict[str, Any]) -> str:
    file = folder / "kubeconfig"
    file.write_text(
        json.dumps(
            {
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
                "clusters": [{"name": "k", "cluster": cluster}],
                "users": [{"name": "u", "user": user}],
            }
        )
    )
    return str(file)


def test_in_a_pod_its_own_files_say_it(tmp_path: Path) -> None:
    """The token is read at each use: it is replaced every hour."""
    authority = Authority(tmp_path)
    (tmp_path / "token").write_text("first\n")
    found = token_reviewer.find(
        None, {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT_HTTPS": "6443"}, tmp_path
    )
    assert (found.url, found.headers()) == ("https://[fd00::1]:6443", {"Authorization": "Bearer first"})
    (tmp_path / "token").write_text("second\n")
    assert found.headers() == {"Authorization": "Bearer second"}
    authority.certificate.unlink()
    with pytest.raises(NoApiServer, match=r"ca\.crt"):
        token_reviewer.find(None, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, tmp_path)


def test_a_kubeconfig_says_it_with_files_or_their_content(tmp_path: Path) -> None:
    """Relative files are beside it."""
    pair = Authority(tmp_path).issue("ops")
    content = {
        f"client-{name}-data": base64.b64encode(path.read_bytes()).decode()
        for name, path in (("certificate", pair.certificate), ("key", pair.key))
    }
    cluster = {"server": "https://api.example:6443/", "certificate-authority": "ca.crt"}
    found = token_reviewer.find(kubeconfig(tmp_path, cluster, content), {})
    assert (found.url, found.headers()) == ("https://api.example:6443", {})
    found = token_reviewer.find(kubeconfig(tmp_path, cluster, {"token": "abc"}), {})
    assert found.headers() == {"Authorization": "Bearer abc"}


@pytest.mark.parametrize(
    ("described", "user", "said"),
    [
        ({"server": "http://api.example"}, {}, "https"),
        ({"server": "https://a", "insecure-skip-tls-verify": True}, {}, "whose certificate is checked"),
        ({}, {}, "names no server"),
        ({"server": "https://a"}, {"exec": {"command": "aws"}}, "not a plugin"),
        ({"server": "https://a", "certificate-authority-data": "%%"}, {}, "cannot be used"),
    ],
)
def test_what_cannot_work_or_is_not_safe_is_refused(
    tmp_path: Path, described: dict[str, Any], user: dict[str, Any], said: str
) -> None:
    """Tokens of others are sent there."""
    with pytest.raises(NoApiServer, match=said):
        token_reviewer.find(kubeconfig(tmp_path, described, user), {})


def test_what_is_no_kubeconfig_is_refused(tmp_path: Path) -> None:
    """With the name of the file."""
    for content in ("", "[1]", "a: [", "current-context: x"):
        file = tmp_path / "kubeconfig"
        file.write_text(content)
        with pytest.raises(NoApiServer, match="kubeconfig"):
            token_reviewer.find(str(file), {})
    with pytest.raises(NoApiServer, match="missing"):
        token_reviewer.find(str(tmp_path / "missing"), {})
