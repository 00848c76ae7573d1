"""What a store answers, in a sentence with a code."""

from __future__ import annotations

import re

import pytest

from fairlead_ingest import errors
from fairlead_ingest.io.table import store_errors
from fairlead_ingest.table.store_path import parse


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
            r"not believed \(Expired\)",
        ),
        (OSError("<Code>SlowDown</Code><Message>a &lt; b</Message>"), errors.Wait, "STORE_AWAY: .*SlowDown: a < b"),
    ],
)
def test_what_a_store_answers_is_waited_for_where_waiting_helps(
    error: Exception, kind: type[Exception], sentence: str
) -> None:
    explained = store_errors.explain(parse("s3://tables/x"), error)
    assert isinstance(explained, kind)
    assert re.search(sentence, str(explained))
