"""Reason codes: MQTT 5 section 2.4, and the return codes of 3.1.1 that stand for them."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from fairlead_wire.errors import FairleadError
from fairlead_wire.validation.addresses import NOT_TLS


class Code(IntEnum):
    """The reason codes in acknowledgements and DISCONNECT."""

    SUCCESS = 0x00
    DISCONNECT_WITH_WILL = 0x04
    NO_MATCHING_SUBSCRIBERS = 0x10
    NO_SUBSCRIPTION_EXISTED = 0x11
    MALFORMED_PACKET = 0x81
    PROTOCOL_ERROR = 0x82
    IMPLEMENTATION_SPECIFIC_ERROR = 0x83
    UNSUPPORTED_PROTOCOL_VERSION = 0x84
    CLIENT_IDENTIFIER_NOT_VALID = 0x85
    BAD_USER_NAME_OR_PASSWORD = 0x86
    NOT_AUTHORIZED = 0x87
    SERVER_UNAVAILABLE = 0x88
    SERVER_BUSY = 0x89
    SERVER_SHUTTING_DOWN = 0x8B
    BAD_AUTHENTICATION_METHOD = 0x8C
    KEEP_ALIVE_TIMEOUT = 0x8D
    SESSION_TAKEN_OVER = 0x8E
    TOPIC_FILTER_INVALID = 0x8F
    TOPIC_NAME_INVALID = 0x90
    RECEIVE_MAXIMUM_EXCEEDED = 0x93
    TOPIC_ALIAS_INVALID = 0x94
    PACKET_TOO_LARGE = 0x95
    QUOTA_EXCEEDED = 0x97
    PAYLOAD_FORMAT_INVALID = 0x99
    RETAIN_NOT_SUPPORTED = 0x9A
    QOS_NOT_SUPPORTED = 0x9B
    SHARED_SUBSCRIPTIONS_NOT_SUPPORTED = 0x9E
    SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED = 0xA1
    WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED = 0xA2

    @property
    def label(self) -> str:
        """The code's name in metrics and logs."""
        return self.name.lower()


FAILURE: Final = 0x80
"""Codes from here on are failures; the only failure code in a SUBACK of 3.1.1."""

_CONNACK_3: Final = {
    Code.UNSUPPORTED_PROTOCOL_VERSION: 1,
    Code.CLIENT_IDENTIFIER_NOT_VALID: 2,
    Code.BAD_USER_NAME_OR_PASSWORD: 4,
    Code.NOT_AUTHORIZED: 5,
    Code.TOPIC_NAME_INVALID: 5,
    Code.QOS_NOT_SUPPORTED: 5,
}
_UNAVAILABLE_3: Final = 3

_OF_MESSAGES: Final = {
    "bad_source": Code.TOPIC_NAME_INVALID,
    "forbidden_source": Code.NOT_AUTHORIZED,
    "too_large": Code.PACKET_TOO_LARGE,
    "bad_body": Code.PAYLOAD_FORMAT_INVALID,
}


class MqttRefused(FairleadError):
    """A fault that ends a client's connection: the code, and a sentence for the client's log."""

    def __init__(self, code: Code, reason: str) -> None:
        super().__init__(reason)
        self.code = code


def connack_3(code: Code) -> int:
    """The closest return code of 3.1.1."""
    return 0 if code is Code.SUCCESS else _CONNACK_3.get(code, _UNAVAILABLE_3)


def of_message(code: str) -> Code:
    """The MQTT code for a message that is refused with this code (``publishing.RefusalReason``)."""
    return _OF_MESSAGES.get(code, Code.IMPLEMENTATION_SPECIFIC_ERROR)


# ---- connections that fail before their CONNECT ----

_TLS_HANDSHAKE: Final = b"\x16\x03"
_VERSIONS: Final = frozenset({"UNSUPPORTED_PROTOCOL", "NO_SHARED_CIPHER", "WRONG_SSL_VERSION", "VERSION_TOO_LOW"})


def not_connect(first: bytes) -> MqttRefused:
    """The fault of a client that begins with something else; ``first``: its first bytes."""
    if first.startswith(_TLS_HANDSHAKE):
        reason = "the client speaks TLS, but this port does not: connect without it, or set mqtt.tls_cert and tls_key"
        return MqttRefused(Code.PROTOCOL_ERROR, reason)
    return MqttRefused(Code.PROTOCOL_ERROR, "the first packet must be CONNECT")


def handshake_failed(cause: str) -> str:
    """Why a client has no TLS connection, and the remedy.  ``cause``: OpenSSL's reason, or "" """
    if cause == "HTTP_REQUEST":
        return "an HTTP request came to the MQTT port: use the address in http_listen"
    if cause in NOT_TLS:
        return "the client does not speak TLS, which this port requires: connect with TLS (mosquitto_pub --cafile)"
    if cause in _VERSIONS:
        return f"the TLS versions or ciphers of the client are too old ({cause}): this port takes TLS 1.2 and 1.3"
    return f"the TLS handshake failed: {cause or 'the client sent nothing'}"
