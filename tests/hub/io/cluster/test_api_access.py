"""Where the API server is and who we are: kubeconfigs, files that are replaced, and what cannot be used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.kube.cluster import Cluster

from fairlead_hub.io.cluster import api_access
from fairlead_hub.io.cluster.api_access import ApiAccess, ConfigError


def test_a_token_file_that_was_replaced_is_read_again(tmp_path: Path) -> None:
    """Also one that a kubeconfig names; while it is missing the last one stays."""
    token, config = tmp_path / "token", tmp_path / "kubeconfig"
    token.write_text("one")
    config.write_text(
        json.dumps(
            {
                "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
                "users": [{"name": "u", "user": {"tokenFile": str(token)}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
        )
    )
    found = api_access.load(str(config))
    assert found.headers() == {"Authorization": "Bearer one"}
    token.write_text("two\n")
    found.renew()
    assert found.headers() == {"Authorization": "Bearer two"}
    token.unlink()
    found.renew()
    assert found.headers() == {"Authorization": "Bearer two"}


def test_a_kubeconfig_says_where_and_who(cluster: Cluster) -> None:
    """Server, authority, token."""
    found = api_access.load(str(cluster.kubeconfig))
    assert (found.server, found.headers()) == (cluster.server, {"Authorization": f"Bearer {cluster.token}"})
    assert found.ca is not None and Path(found.ca).read_bytes() == cluster.ca.read_bytes()


@pytest.mark.parametrize("content", ["text", "[]", "contexts: text"])
def test_a_file_that_is_no_kubeconfig_is_called_so(tmp_path: Path, content: str) -> None:
    """In a sentence, not in Python's words about its content."""
    path = tmp_path / "kubeconfig"
    path.write_text(content)
    with pytest.raises(ConfigError) as refused:
        api_access.load(str(path))
    assert str(path) in str(refused.value) and "object" not in str(refused.value)


@pytest.mark.parametrize("content", [None, "", "{", "[]", "clusters: []", "\x00"])
def test_a_kubeconfig_that_is_none_is_named(tmp_path: Path, content: str | None) -> None:
    """With the file, so that the author of the settings finds it."""
    path = tmp_path / "kubeconfig"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigError, match=str(path)):
        api_access.load(str(path))


@pytest.mark.parametrize("server", ["ftp://127.0.0.1:1", "http://127.0.0.1:99999", "cluster.example.com", "https://"])
def test_an_address_that_is_none_is_named(tmp_path: Path, server: str) -> None:
    """At once: it would be taken for a server that is away."""
    path = tmp_path / "kubeconfig"
    found = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "a", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "a", "user": "u"}}],
        "current-context": "c",
    }
    path.write_text(json.dumps(found))
    with pytest.raises(ConfigError, match=f"{path}: server must be https://host:port, is '{server.rstrip('/')}"):
        api_access.load(str(path))


def test_outside_a_cluster_a_kubeconfig_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The text says what was looked for."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ConfigError, match="in-cluster configuration"):
        api_access.load(None)


def test_plain_http_needs_no_tls() -> None:
    """kubectl proxy, for example."""
    assert ApiAccess("http://127.0.0.1:8001/", dict).tls() is None
    assert ApiAccess("http://127.0.0.1:8001/", dict).server == "http://127.0.0.1:8001"
