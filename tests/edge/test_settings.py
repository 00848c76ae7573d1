"""Settings: what is refused, and that the reason names the key."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead_edge.settings import EdgeSettings
from fairlead_wire.io.settings import SettingsError, load

GOOD = {
    "FAIRLEAD_EDGE_NODE": "edge-1",
    "FAIRLEAD_EDGE_HUB_URL": "ws://127.0.0.1:10000",
    "FAIRLEAD_EDGE_DATA_DIR": "data",
    "FAIRLEAD_EDGE_SECURITY": "insecure",
}
FILES = {"tls_ca": "ca", "tls_cert": "cert", "tls_key": "key"}


def read(**changes: str | None) -> EdgeSettings:
    found = {**GOOD, **{f"FAIRLEAD_EDGE_{key.upper()}": value for key, value in changes.items()}}
    return load("edge", EdgeSettings, None, {key: value for key, value in found.items() if value is not None})


def test_defaults_are_those_of_the_contract() -> None:
    found = read()
    assert (found.http_listen, found.link.attempt_seconds_max, found.plain_http) == ("127.0.0.1:10550", 1.0, True)
    assert found.store.object_bytes + found.store.message_bytes == found.store.max_bytes
    assert not found.cleanup.check_entire_queue_on_cleanup


def test_mutual_tls_is_the_default_and_needs_its_files() -> None:
    with pytest.raises(SettingsError, match="tls_ca"):
        read(security=None, hub_url="wss://hub:10000")
    assert read(security=None, hub_url="wss://hub:10000", **FILES).security == "mtls"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("node", ""),
        ("node", "Edge 1"),
        ("node", "../x"),
        ("node", "a" * 300),
        ("hub_url", "http://hub:1"),
        ("hub_url", "wss://"),
        ("hub_url", "wss://hub:port"),
        ("hub_url", "wss://hub"),
        ("hub_url", "wss://hub/"),
        ("hub_url", "ws://hub:0"),
        ("data_dir", ""),
        ("http_listen", "10550"),
        ("http_listen", "127.0.0.1:99999"),
        ("http_listen", "0.0.0.0:10550"),
        ("health_listen", "here"),
        ("security", "none"),
        ("log_level", "loud"),
        ("store_max_bytes", "1"),
        ("store_max_bytes", "much"),
        ("store_evict", "always"),
        ("cleanup_interval_seconds", "0"),
        ("link_attempt_seconds_max", "-1"),
    ],
)
def test_bad_values_are_refused_by_name(key: str, value: str) -> None:
    with pytest.raises(SettingsError) as refused:
        read(**{key: value})
    assert key.split("_")[-1] in str(refused.value).lower() and refused.value.reason


def test_the_scheme_of_the_hubs_url_fits_the_security() -> None:
    with pytest.raises(SettingsError, match=r'hub_url: wss:// needs security = "mtls"'):
        read(security="insecure", hub_url="wss://hub:10000")
    with pytest.raises(SettingsError, match="hub_url"):
        read(security="mtls", **FILES)


def test_beyond_loopback_the_api_speaks_tls() -> None:
    assert not read(security="mtls", hub_url="wss://hub:1", http_listen="0.0.0.0:10550", **FILES).plain_http


def test_unknown_keys_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "edge.toml"
    file.write_text(
        'node = "edge-1"\nhub_url = "ws://127.0.0.1:1"\ndata_dir = "d"\nsecurity = "insecure"\nhttp_lisen = "x"\n'
    )
    with pytest.raises(SettingsError, match="http_lisen: unknown key"):
        load("edge", EdgeSettings, file, {})


@pytest.mark.parametrize("text", ["", ":1", "host", "host:x", "127.example.com:80", "0.0.0.0:80"])
def test_what_is_no_address_or_not_loopback(text: str) -> None:
    """Without TLS the local API is for this machine alone, and the reason names the key."""
    with pytest.raises(SettingsError, match=r"http_listen: must be "):
        read(http_listen=text)


def test_a_missing_port_is_asked_for_and_the_hubs_own_is_named() -> None:
    """443 is hardly ever meant, and the symptom would be a link that never comes up."""
    with pytest.raises(SettingsError, match=r"hub_url: must name the port, for example wss://hub.example:10000"):
        read(hub_url="wss://hub.example")


def test_every_mistake_is_reported_at_once() -> None:
    with pytest.raises(SettingsError) as refused:
        read(node="Edge 1", hub_url="wss://me:geheim@hub", http_listen="nope", store_evict="allways", security=None)
    keys = [each.key for each in refused.value.mistakes]
    assert keys == ["store.evict", "node", "http_listen", "hub_url", "tls_ca", "tls_cert", "tls_key"]
    assert "geheim" not in str(refused.value)


def test_paths_may_begin_at_home(tmp_path: Path) -> None:
    files = {"FAIRLEAD_EDGE_TLS_CA": "~/ca", "FAIRLEAD_EDGE_TLS_CERT": "~/cert", "FAIRLEAD_EDGE_TLS_KEY": "/k"}
    found = load("edge", EdgeSettings, None, {**GOOD, **files, "FAIRLEAD_EDGE_DATA_DIR": "~/d", "HOME": "/home/me"})
    assert (found.data_dir, found.tls_ca, found.tls_key) == ("/home/me/d", "/home/me/ca", "/k")
