"""What a store answers, in a sentence with a code."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys

import pytest
from tests.support.fake_clock import FakeClock
from tests.support.tables.object_store import ObjectStore

from fairlead_ingest import errors
from fairlead_ingest.io.table import object_store, store_errors
from fairlead_ingest.table.store_path import Storage, parse


@pytest.mark.parametrize(
    ("error", "kind", "sentence"),
    [
        (OSError("403 Forbidden: <Code>QuotaExceeded</Code>"), errors.Wait, "FAIRLEAD_DISK_FULL"),
        (OSError("<Code>XMinioStorageFull</Code>"), errors.Wait, "FAIRLEAD_DISK_FULL"),
        (OSError("Generic S3 error: Received redirect without LOCATION"), errors.Stop, "UNFIT: .*region"),
        (OSError("403 Forbidden: <Code>AllAccessDisabled</Code>"), errors.Stop, "FAIRLEAD_STORE_DENIED"),
        (FileNotFoundError("not found: Error performing PUT http://s/x: 404: <html>"), errors.Wait, "STORE_AWAY"),
        (FileNotFoundError("not found: Error performing GET http://s/x: 404: <html>"), errors.Stop, "TABLE_UNFIT"),
        (
            OSError("HTTP error\nDebug source:\nerror: InvalidCertificate(\n  UnknownIssuer,\n)"),
            errors.Wait,
            "SSL_CERT_FILE",
        ),
        (
            OSError("client error (Connect) ↳ invalid peer certificate ↳ Expired"),
            errors.Wait,
            r"not trusted \(Expired\)",
        ),
        (OSError("Error performing POST REDACTED in 3ms <Code>AccessDenied</Code>"), errors.Stop, "DENIED: .*the role"),
        (
            OSError("Error performing PUT http://169.254.169.254/latest/api/token in 3ms - 403 Forbidden"),
            errors.Stop,
            r"DENIED: .*there is no access key.*\[storage\].*AWS_ACCESS_KEY_ID",
        ),
        (
            OSError("Error performing PUT http://169.254.169.254/latest/api/token in 3ms - connect error"),
            errors.Wait,
            "AWAY: .*there is no access key",
        ),
        (OSError("Generic S3 error: Failed to read token file '/t'"), errors.Stop, "DENIED: .*AWS_WEB_IDENTITY_TOKEN"),
        (OSError("Error performing POST REDACTED in 3ms: connect error"), errors.Wait, "AWAY: .*AWS_ENDPOINT_URL_STS"),
        (OSError("POST REDACTED InvalidCertificate(UnknownIssuer)"), errors.Wait, "role .*SSL_CERT_FILE"),
        (OSError("<Code>ExpiredToken</Code>"), errors.Stop, "DENIED: .*new ones"),
        (OSError("<Code>SlowDown</Code><Message>a &lt; b</Message>"), errors.Wait, "STORE_AWAY: .*SlowDown: a < b"),
    ],
)
def test_what_a_store_answers_is_waited_for_where_waiting_helps(error, kind, sentence):
    explained = store_errors.explain(parse("s3://tables/x"), error)
    assert isinstance(explained, kind)
    assert re.search(sentence, str(explained))


@pytest.mark.parametrize(
    ("environ", "storage", "where"),
    [
        ({}, Storage(), "s3://tables/x at AWS: "),
        ({"AWS_ENDPOINT_URL": "https://s:9000"}, Storage(), r"at https://s:9000 \(from AWS_ENDPOINT_URL\): "),
        ({"AWS_ENDPOINT": "https://s"}, Storage(), r"at https://s \(from AWS_ENDPOINT\): "),
        (
            {"AWS_ENDPOINT_URL": "https://other"},
            Storage(endpoint_url="https://s"),
            r"at https://s \(from \[storage\] endpoint_url\): ",
        ),
    ],
)
def test_which_store_answered_is_said_and_where_its_address_is_from(monkeypatch, environ, storage, where):
    for name in store_errors.ENDPOINTS:
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    error = OSError("<Code>InvalidAccessKeyId</Code><Message>Check your key.</Message>")
    explained = store_errors.explain(parse("s3://tables/x", storage), error)
    assert re.search(where + "InvalidAccessKeyId: Check your key; check the access key", str(explained))


ASKING = """
import sys
from fairlead_ingest import errors
from fairlead_ingest.io.table import object_store
from fairlead_ingest.table.store_path import Storage, parse
place = parse("s3://tables/skewed/rows", Storage(**dict(each.split("=", 1) for each in sys.argv[1:])))
try:
    object_store.probe(place)
    object_store.write(place / "done", b"done")
except (errors.Wait, errors.Stop) as error:
    print(type(error).__name__, error)
"""


@pytest.mark.process
@pytest.mark.parametrize("seconds", [-3600.0, 3600.0])
def test_a_clock_that_is_wrong_is_said_with_its_machine_and_nothing_is_written(tmp_path, seconds):
    """By a real process with another clock; put right, the same process would go on."""
    clock = FakeClock(tmp_path)

    def ask() -> str:
        given = [f"{name}={value}" for name, value in store.settings.items()]
        asked = subprocess.run(
            [sys.executable, "-c", ASKING, *given], env={**os.environ, **clock.environ},
            capture_output=True, text=True, timeout=120, check=True,
        )  # fmt: skip
        return asked.stdout

    with ObjectStore(tmp_path / "store") as store:
        clock.move(seconds=seconds)
        said = ask()
        assert said.startswith("Wait FAIRLEAD_STORE_AWAY: s3://tables/skewed/rows at "), said
        assert "RequestTimeTooSkewed" in said and f"the clock of this machine ({platform.node()}) says" in said
        assert store.objects() == []
        clock.move()
        assert ask() == ""
        assert object_store.read(store.place("skewed/rows/done")) == b"done"
