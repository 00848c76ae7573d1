"""The names, issuer and dates in a certificate: for messages to people, never for decisions about trust.

    PEM or DER ─read→ Certificate ─unfit(now, name)→ "" or what is wrong with it

OpenSSL alone decides whom to trust; when a check fails it names neither the certificate nor its dates.  Only the fields
above are parsed (RFC 5280, section 4.1; DER as in X.690); anything else raises ``ValueError``.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import ipaddress
import re
from collections.abc import Iterator
from typing import Final

import msgspec

DER_BYTES_MAX: Final = 256 * 1024
NAMES_MAX: Final = 20
NAME_CHARS_MAX: Final = 253
SERIAL_BYTES_MAX: Final = 21
"""20 and a leading zero (RFC 5280, section 4.1.2.2)."""
SOON: Final = datetime.timedelta(days=14)
"""A certificate is reported when less than this, and less than a tenth of its validity, is left."""
TENTH: Final = 10

_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", re.DOTALL)
_SEQUENCE, _OID, _EXTENSIONS, _OCTETS = 0x30, 0x06, 0xA3, 0x04
_VERSION, _UTC_TIME, _TIME = 0xA0, 0x17, 0x18
_DNS_NAME, _ADDRESS = 0x82, 0x87
_COMMON_NAME, _ALTERNATIVES = bytes.fromhex("550403"), bytes.fromhex("551d11")


class Certificate(msgspec.Struct, frozen=True, kw_only=True):
    """``names`` are its DNS names and IP addresses.  Times are in UTC; ``serial`` is hexadecimal."""

    common_name: str
    names: tuple[str, ...]
    issuer: str
    not_before: datetime.datetime
    not_after: datetime.datetime
    serial: str = ""

    @property
    def name(self) -> str:
        """The common name or, if there is none, the first DNS name, as in ``io.tls.peer_name``."""
        return self.common_name or next(iter(self.names), "")

    def __str__(self) -> str:
        names = f", for {', '.join(self.names)}" if self.names and self.names != (self.name,) else ""
        facts = f"issued by {self.issuer or '?'}{names}, valid until {day(self.not_after)}"
        return f"the certificate of {self.name or 'no name'} ({facts})"


def read(content: bytes) -> Certificate:
    """Parse DER, or the first certificate of a PEM file.  Raises ``ValueError``."""
    try:
        return _certificate(der(content))
    except (IndexError, StopIteration, OverflowError):
        raise ValueError("not a certificate") from None


def der(content: bytes) -> bytes:
    """The first certificate of a PEM file as DER; DER is returned unchanged.  Raises ``ValueError``."""
    if len(content) > DER_BYTES_MAX:
        raise ValueError(f"larger than {DER_BYTES_MAX} bytes")
    found = _PEM.search(content)
    if found is None:
        return content
    try:
        return base64.b64decode(b"".join(found[1].split()), validate=True)
    except binascii.Error:
        raise ValueError("not a certificate: its PEM text is damaged") from None


def unfit(certificate: Certificate, now: datetime.datetime, name: str | None = None) -> str:
    """Why the other side will probably refuse it now (as the certificate of ``name``, if given); "": no reason."""
    if now < certificate.not_before:
        return f"is not valid before {day(certificate.not_before)}, and it is {day(now)} here: is the clock right?"
    if now > certificate.not_after:
        return f"expired on {day(certificate.not_after)}, and it is {day(now)} here: replace it, or set the clock"
    if name is not None and certificate.name != name:
        return f"is the one of {certificate.name or 'no name'}, not of {name}"
    return ""


def ends_soon(certificate: Certificate, now: datetime.datetime) -> bool:
    """True when it is time to renew the certificate."""
    left = certificate.not_after - now
    return left < min(SOON, (certificate.not_after - certificate.not_before) / TENTH)


def day(moment: datetime.datetime) -> str:
    """A time for people: UTC, to the minute."""
    return moment.astimezone(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")


# ── DER ──


def _certificate(content: bytes) -> Certificate:
    whole = _fields(_one(content, _SEQUENCE))
    parts = _fields(_of(next(whole), _SEQUENCE))
    first = next(parts)
    serial = next(parts) if first[0] == _VERSION else first
    next(parts)  # how it is signed
    issuer = next(parts)[1]
    before, after = (_moment(*each) for each in _fields(next(parts)[1]))
    subject = next(parts)[1]
    names: tuple[str, ...] = ()
    for tag, value in parts:
        if tag == _EXTENSIONS:
            names = _alternatives(value)
    return Certificate(
        common_name=_common_name(subject),
        names=names,
        issuer=_common_name(issuer),
        not_before=before,
        not_after=after,
        serial=f"{int.from_bytes(serial[1][:SERIAL_BYTES_MAX], 'big'):x}",
    )


def _fields(content: bytes) -> Iterator[tuple[int, bytes]]:
    """(tag, content) of each element."""
    offset = 0
    while offset < len(content):
        tag, length, offset = content[offset], content[offset + 1], offset + 2
        if length & 0x80:
            size = length & 0x7F
            if not 1 <= size <= 4:
                raise ValueError("not a certificate")
            length, offset = int.from_bytes(content[offset : offset + size]), offset + size
        if offset + length > len(content):
            raise ValueError("not a certificate: cut off")
        yield tag, content[offset : offset + length]
        offset += length


def _one(content: bytes, tag: int) -> bytes:
    return _of(next(_fields(content)), tag)


def _of(field: tuple[int, bytes], tag: int) -> bytes:
    if field[0] != tag:
        raise ValueError("not a certificate")
    return field[1]


def _moment(tag: int, text: bytes) -> datetime.datetime:
    form = {_UTC_TIME: "%y%m%d%H%M%SZ", _TIME: "%Y%m%d%H%M%SZ"}.get(tag)
    if form is None:
        raise ValueError("not a certificate")
    return datetime.datetime.strptime(text.decode("ascii"), form).replace(tzinfo=datetime.UTC)


def _common_name(name: bytes) -> str:
    for _, relative in _fields(name):
        for _, pair in _fields(relative):
            kind, value = _fields(pair)
            if kind == (_OID, _COMMON_NAME):
                return _text(value[1])
    return ""


def _alternatives(extensions: bytes) -> tuple[str, ...]:
    for _, extension in _fields(_one(extensions, _SEQUENCE)):
        kind, *_, value = _fields(extension)
        if kind == (_OID, _ALTERNATIVES) and value[0] == _OCTETS:
            return tuple(_names(_one(value[1], _SEQUENCE)))[:NAMES_MAX]
    return ()


def _names(content: bytes) -> Iterator[str]:
    for tag, value in _fields(content):
        if tag == _DNS_NAME:
            yield _text(value)
        elif tag == _ADDRESS and len(value) in (4, 16):
            yield str(ipaddress.ip_address(value))


def _text(value: bytes) -> str:
    """Decode, replace what is not printable, and truncate for log lines."""
    text = value.decode("utf-8", "replace")[:NAME_CHARS_MAX]
    return "".join(each if each.isprintable() else "?" for each in text)
