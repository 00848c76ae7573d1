"""The hub's settings: defaults of the contract, refusals that name the key."""

import pytest

from fairlead_hub import settings
from fairlead_wire import delivery_policy
from fairlead_wire.io.settings import SettingsError, load

INSECURE = 'security = "insecure"\n'


def write(tmp_path, text):
    file = tmp_path / "hub.toml"
    file.write_text(text)
    return file


def read(tmp_path, text):
    return load("hub", settings.HubSettings, write(tmp_path, text), {})


def test_the_contracts_defaults(tmp_path):
    """Addresses, record times, one send and five retries from 1 to 30 s, exponential."""
    found = read(tmp_path, INSECURE)
    assert found.listen == "127.0.0.1:10000"
    assert (found.record.flush_seconds, found.record.pending_seconds) == (1, 30)
    delays = [delay.seconds for delay in delivery_policy.schedule(found.delivery.policy())]
    assert len(delays) == 5
    assert (delays[0], delays[-1], found.delivery.ack_timeout) == (1, 30, 5)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("", "tls_ca"),
        ('security = "insecure"\nlisten = "0.0.0.0:10000"\n', "listen"),
        ('security = "insecure"\nhttp_listen = "0.0.0.0:10002"\n', "http_listen"),
        ('security = "open"\n', "security"),
        (INSECURE + 'listen = "nowhere"\n', "listen"),
        (INSECURE + 'listen = "127.0.0.1:99999"\n', "listen"),
        (INSECURE + 'messaging_url = "ftp://x"\n', "messaging_url"),
        (INSECURE + "[record]\nflush_seconds = 0\n", "record.flush_seconds"),
        (INSECURE + "[delivery]\nack_timeout = 0\n", "delivery.ack_timeout"),
        (INSECURE + "[delivery]\nminimum_delay = 9\nmaximum_delay = 3\n", "delivery.maximum_delay"),
        (INSECURE + "[window]\nmessages = 0\n", "window.messages"),
        (INSECURE + "typo = 1\n", "typo"),
    ],
)
def test_refusals_name_the_key(tmp_path, text, key):
    """Exit status 2 with file, key and reason."""
    with pytest.raises(SettingsError) as caught:
        read(tmp_path, text)
    assert caught.value.key == key


@pytest.mark.parametrize(
    "link",
    [
        "javascript:alert(1)//{trace_id}",
        "https:///{trace_id}",
        "https://traces.example/",
        "https://{trace_id}.example/",
        "https://user:pw@traces.example/{trace_id}",
        "https://traces.example/{trace_id} x",
        "https://traces.example/\u202e{trace_id}",
        "https://traces.example:x/{trace_id}",
        "https:\\\\traces.example/{trace_id}",
        "//traces.example/{trace_id}",
        "https://traces.example/{trace_id}" + "x" * 2048,
    ],
)
def test_a_link_to_traces_is_an_address_of_the_web(tmp_path, link):
    """Pages send people there; a password would be shown to all of them."""
    with pytest.raises(SettingsError) as caught:
        load("hub", settings.HubSettings, write(tmp_path, INSECURE), {"FAIRLEAD_HUB_TRACES_LINK": link})
    assert caught.value.key == "traces.link" and "pw" not in str(caught.value)


def test_a_link_to_traces_may_have_the_id_anywhere_behind_the_host(tmp_path):
    for link in ("http://127.0.0.1:16686/trace/{trace_id}", 'https://g.example/explore?left={"q":"{trace_id}"}#a'):
        found = load("hub", settings.HubSettings, write(tmp_path, INSECURE), {"FAIRLEAD_HUB_TRACES_LINK": link})
        assert found.traces.link == link


@pytest.mark.parametrize(
    ("identity", "signs_with"),
    [("", "off"), ('signer = "off"\nca_key = "k"', "off"),
     ('issuer = "fleet"\nsigner = "cert-manager"', "cert-manager"),
     ('ca_cert = "c"\nca_key = "k"', "files"), ('signer = "files"\nca_cert = "c"\nca_key = "k"', "files")],
)  # fmt: skip
def test_who_signs_follows_from_what_is_given(tmp_path, identity, signs_with):
    file = tmp_path / "hub.toml"
    file.write_text(f'tls_ca = "a"\ntls_cert = "b"\ntls_key = "c"\n[identity]\n{identity}\n')
    assert load("hub", settings.HubSettings, file, {}).identity.signs_with == signs_with


@pytest.mark.parametrize(
    ("text", "key"),
    [('[identity]\nsigner = "files"', "identity.ca_cert"), ('[identity]\nsigner = "cert-manager"', "identity.issuer"),
     ('[identity]\nurl = "https://hub"', "identity.url"), ("[identity]\ncertificate_days = 0", "certificate_days")],
)  # fmt: skip
def test_refusals_of_identity_settings_name_the_key(tmp_path, text, key):
    file = tmp_path / "hub.toml"
    file.write_text(f'tls_ca = "a"\ntls_cert = "b"\ntls_key = "c"\n{text}\n')
    with pytest.raises(SettingsError, match=key):
        load("hub", settings.HubSettings, file, {})
