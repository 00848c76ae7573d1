"""How long the certificates in the chart's Secrets live.  Only the public halves are looked at."""

from __future__ import annotations

import base64
import binascii
import datetime
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from fairlead_cli.doctor.device.certificates import judge_one
from fairlead_cli.doctor.finding import Finding, ok, problem
from fairlead_wire.identity import certificate

PUBLIC: Final = ("tls.crt", "ca.crt", "link.crt")


def judge(secrets: Iterable[Mapping[str, Any]], now: datetime.datetime) -> Iterator[Finding]:
    """One finding for each certificate that ends soon or ended; one for all the others."""
    good = 0
    for secret in secrets:
        name = f"Secret {secret['metadata'].get('namespace', '')}/{secret['metadata']['name']}"
        for key in PUBLIC:
            if key not in (secret.get("data") or {}):
                continue
            found = _judge(f"{key} of {name}", secret["data"][key], now)
            if found.level == "ok":
                good += 1
            else:
                yield found
    yield ok("certificates", f"{good} certificates in Secrets of this installation are good for a while")


def _judge(where: str, text: str, now: datetime.datetime) -> Finding:
    try:
        one = certificate.read(base64.b64decode(text, validate=True))
    except (ValueError, binascii.Error) as error:
        return problem("certificates", f"{where} cannot be read: {error}", "have it issued anew")
    return judge_one("certificates", where, one, now)
