"""helm test: every room is ready, a message goes through messaging and comes back, and the hub refuses strangers.

Standard library only; runs in the hub's image with a certificate of its own.
"""

import base64
import http.client
import json
import os
import secrets
import socket
import ssl
import sys
import time
import urllib.error
import urllib.request

TLS = os.environ.get("TLS", "/etc/fairlead/tls")
SAID_BYTES_MAX = 65536
PLAIN = b"GET / HTTP/1.1\r\nHost: hub\r\nConnection: close\r\n\r\n"
OPENING = (
    b"GET / HTTP/1.1\r\nHost: hub\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + base64.b64encode(secrets.token_bytes(16)) + b"\r\n\r\n"
)
"""As a node begins."""
DEADLINE = time.monotonic() + float(os.environ["TIMEOUT_SECONDS"])


def context(with_certificate: bool) -> ssl.SSLContext:
    made = ssl.create_default_context(cafile=f"{TLS}/ca.crt")
    if with_certificate:
        made.load_cert_chain(f"{TLS}/tls.crt", f"{TLS}/tls.key")
    return made


def call(method: str, path: str, body: object = None) -> tuple[int, object]:
    host, port = os.environ["MESSAGING"].rsplit(":", 1)
    connection = http.client.HTTPSConnection(host, int(port), context=context(True), timeout=10)
    payload = None if body is None else json.dumps(body)
    connection.request(method, path, payload, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer.status, json.loads(text) if text.strip() else None


def round_trip() -> None:
    topic = f"/v1/namespaces/helm-test/topics/t-{secrets.token_hex(4)}"
    sent = secrets.token_hex(16)
    status, answer = call("PUT", topic, {})
    assert status == 200, f"creating a topic: {status} {answer}"
    try:
        payload = base64.b64encode(sent.encode()).decode()
        status, answer = call("POST", f"{topic}/publish", {"messages": [payload]})
        assert status == 200, f"publish: {status} {answer}"
        while True:
            status, answer = call("POST", f"{topic}/poll", {"startFrom": None, "limit": 10})
            assert status == 200, f"poll: {status} {answer}"
            if answer:
                break
            assert time.monotonic() < DEADLINE, "the message did not come back in time"
            time.sleep(0.2)
        back = base64.b64decode(answer[0]["payload"]).decode()
        assert back == sent, f"sent {sent}, got back {back}"
    finally:
        call("DELETE", topic)
    print("messaging: one message there and back")


def knock(with_certificate: bool, request: bytes) -> bytes:
    """At the hub's door: what it says, b"" when it refuses us in the handshake.  One that is not ours is an error.

    The hub's certificate is checked in the handshake; what it thinks of ours is heard afterwards (TLS 1.3).
    """
    host, port = os.environ["HUB"].rsplit(":", 1)
    plain = socket.create_connection((host, int(port)), timeout=10)
    said = b""
    with context(with_certificate).wrap_socket(plain, server_hostname=host) as secure:
        try:
            secure.sendall(request)
            while len(said) < SAID_BYTES_MAX and (more := secure.recv(4096)):
                said += more
        except (ssl.SSLError, ConnectionError, TimeoutError):
            pass
    return said


def hub_door() -> None:
    """Without a certificate one may join, where devices join by tokens, and never open a node's session."""
    said = knock(with_certificate=False, request=OPENING)
    assert not said or b"identity" in said, f"the hub talked to a client without a certificate: {said!r}"
    print("hub: has a certificate of ours, and refuses a session without one")
    if knock(with_certificate=True, request=PLAIN):
        print("hub: answers a client with a certificate of ours")
    else:
        print("hub: refuses our own certificate too: nodes have an authority of their own")


def ready(room: str) -> None:
    """By what the room itself says, which names what it waits for; a room that has just started is given time."""
    url = f"http://{os.environ[f'{room}_HEALTH']}/readyz"
    while True:
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                said = answer.read().decode(errors="replace").strip()
                assert answer.status == 200, said
                break
        except urllib.error.HTTPError as error:
            said = f"{error.code} {error.read().decode(errors='replace').strip()}"
        except OSError as error:
            said = str(error)
        assert time.monotonic() < DEADLINE, f"{room.lower()} is not ready: {said}"
        time.sleep(0.5)
    print(f"{room.lower()}: ready")


def main() -> int:
    for room in ("HUB", "MESSAGING", "INGEST"):
        if f"{room}_HEALTH" in os.environ:
            ready(room)
    hub_door()
    if "MESSAGING" in os.environ:
        round_trip()
    return 0


sys.exit(main())
