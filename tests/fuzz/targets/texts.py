"""Short texts that a peer chooses."""

from __future__ import annotations

import datetime
from urllib.parse import parse_qsl

from cryptography import x509
from tests.fuzz.target import Target, promise

from fairlead_wire.errors import RemoteError
from fairlead_wire.http import browser
from fairlead_wire.identity import certificate
from fairlead_wire.objects import resource
from fairlead_wire.traces import trace
from fairlead_wire.validation import listen_address
from fairlead_wire.validation.mistakes import Wrong

NOW = datetime.datetime(2026, 11, 22, tzinfo=datetime.UTC)


def read_certificate(content: bytes) -> None:
    """As OpenSSL's reader understands it, where both do."""
    found = certificate.read(content)
    promise(found.name.isprintable() and str(found).isprintable(), "a log line shows nothing that cannot be printed")
    certificate.unfit(found, NOW, "edge-1")
    certificate.ends_soon(found, NOW)
    if b"-----" in content:
        return
    try:
        other = x509.load_der_x509_certificate(content)
        names = other.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
        times = other.not_valid_before_utc, other.not_valid_after_utc
        alternatives = other.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        theirs = alternatives.get_values_for_type(x509.DNSName)
    except Exception:  # noqa: BLE001 - the other reader refuses more, each time in a way of its own
        return
    promise((found.not_before, found.not_after) == times, "both readers find the same times")
    if len(names) == 1:
        promise(found.common_name == _shown(str(names[0].value)), "both readers find the same common name")
    named = [each for each in map(_shown, theirs) if each]
    promise([each for each in found.names if each in named] == named[: len(found.names)], "and the same names in order")


def _shown(text: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in text[: certificate.NAME_CHARS_MAX])


def read_trace(content: bytes) -> None:
    text = content.decode("latin-1")
    found = trace.parse(text)
    if found is not None:
        promise(str(found)[:53] == text[:53], "a trace goes on as it came")
        promise(trace.parse(str(found)) == found, "it is read as it is written")
    kept = trace.check_tracestate(text)
    promise(kept in ("", text) and len(kept) <= trace.TRACESTATE_CHARS_MAX, "it is carried whole or not at all")


def read_resource(content: bytes) -> None:
    path = content.decode(errors="surrogateescape")
    found = resource.parse(path)
    promise(found.path == path, "a path is written as it was read")
    promise(resource.split(found.path) == found, "and is read again as the same object")
    promise("/" not in found.name and ".." not in (found.name, found.namespace), "no part leads out of its place")


def read_headers(content: bytes) -> None:
    """What a browser, or what looks like one, says of itself."""
    headers = dict(parse_qsl(content.decode("latin-1")))
    refused = browser.refusal(headers)
    promise(refused == "" or " " in refused, "a refusal is a sentence")
    if headers.get("Host", "").endswith(".example"):
        promise(bool(refused), "a name of others is none of ours")


def read_listen(content: bytes) -> None:
    host, port = listen_address.parse(content.decode(errors="replace"))
    promise(0 <= port <= 65535, "a port is a port")
    listen_address.is_loopback(host)


TARGETS = (
    Target(
        name="certificate",
        says="A certificate, PEM or DER: names and times as another reader finds them, or ValueError.",
        read=read_certificate,
        refusals=(ValueError,),
        shape="der",
    ),
    Target(
        name="traceparent",
        says="A trace context or state: carried as it came, or as if nothing had been sent.",
        read=read_trace,
        refusals=(),
        shape="text",
    ),
    Target(
        name="resource-path",
        says="The path of an object: written as it was read, and it leads nowhere else.",
        read=read_resource,
        refusals=(RemoteError,),
        shape="text",
        words=(b"api", b"apis", b"namespaces", b"v1", b"..", b"."),
    ),
    Target(
        name="browser-headers",
        says="Host, Origin and Sec-Fetch-Site: a page of others is refused, whatever it says.",
        read=read_headers,
        refusals=(),
        shape="text",
        words=(b"Host=", b"Origin=", b"&", b"localhost", b"http%3A%2F%2F", b"Sec-Fetch-Site=", b"[::1]", b".localhost"),
    ),
    Target(
        name="listen-address",
        says="HOST:PORT.",
        read=read_listen,
        refusals=(ValueError, Wrong),
        shape="text",
        words=(b"[::1]", b":", b"127.0.0.1", b"localhost"),
    ),
)
