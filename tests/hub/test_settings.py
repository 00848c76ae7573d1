"""The hub's settings: defaults of the contract, refusals that name the key."""

import pytest

from fairlead_hub import settings
from fairlead_wire import delivery
from fairlead_wire.io.settings import SettingsError, load

INSECURE = 'security = "insecure"\n'


def read(tmp_path, text):
    file = tmp_path / "hub.toml"
    file.write_text(text)
    return load("hub", settings.Settings, file, {})


def test_the_contracts_defaults(tmp_path):
    """Addresses, record times, one send and five retries from 1 to 30 s, exponential."""
    found = read(tmp_path, INSECURE)
    assert found.listen == "127.0.0.1:10000"
    assert (found.record.flush_seconds, found.record.pending_seconds) == (1, 30)
    delays = [delay.seconds for delay in delivery.schedule(found.delivery.policy())]
    assert len(delays) == 5
    assert (delays[0], delays[-1], found.delivery.ack_timeout) == (1, 30, 5)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("", "tls_ca"),
        ('security = "insecure"\nlisten = "0.0.0.0:10000"\n', "listen"),
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


def test_the_deletion_guards_former_name_is_understood(tmp_path):
    """For one version more, in the file as in the environment."""
    file = tmp_path / "hub.toml"
    file.write_text('security = "insecure"\n[brake]\nremovals_max = 7\n')
    environ = {"FAIRLEAD_HUB_BRAKE_WINDOW_SECONDS": "9"}
    found = load("hub", settings.Settings, file, environ).deletion_guard
    assert (found.removals_max, found.window_seconds) == (7, 9)
