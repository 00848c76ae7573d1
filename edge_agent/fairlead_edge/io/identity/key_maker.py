"""A program that makes keys, certificate requests and signatures: a JSON question on stdin, a JSON answer on stdout.

    {"operation": "make", "kind": "p256", "node": "shop-17"}    → {"key": PEM, "request": base64 of DER}
    {"operation": "request", "key": PEM, "node": "shop-17"}     → {"request": base64 of DER}
    {"operation": "sign", "key": PEM, "content": base64}        → {"signature": base64}
    {"operation": "reaches", "chain": PEM, "authorities": PEM}  → {"reaches": "yes" | "no"}
    on failure                                                  → {"error": text}, exit 1

The key is passed through the pipe, never as an argument, which other users of the machine could read.  With ``node``
the request carries that name, for signers that use the requested names; a hub with its own signer sets the names.
"""

from __future__ import annotations

import base64
import binascii
import sys
from typing import Any, Final

import msgspec
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.x509.oid import NameOID

from fairlead_wire.identity import authority_bundle

QUESTION_BYTES_MAX: Final = 256 * 1024
COMMON_NAME_CHARS_MAX: Final = 64
"""Limit of a common name (RFC 5280, upper bounds); longer names of Nodes appear only in the DNS name."""
RSA_BITS: Final = 3072
RSA_EXPONENT: Final = 65537

Key = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey


class CannotAnswer(Exception):
    """The question is invalid; the text says why."""


def make_key(kind: str) -> Key:
    """A new private key.  Raises ``CannotAnswer`` for a kind that hubs do not accept."""
    match kind:
        case "p256":
            return ec.generate_private_key(ec.SECP256R1())
        case "p384":
            return ec.generate_private_key(ec.SECP384R1())
        case "ed25519":
            return ed25519.Ed25519PrivateKey.generate()
        case "rsa3072":
            return rsa.generate_private_key(public_exponent=RSA_EXPONENT, key_size=RSA_BITS)
        case _:
            raise CannotAnswer(f"keys of kind {kind!r} are not supported; use p256, p384, ed25519 or rsa3072")


def read_key(pem: str) -> Key:
    """The first private key of a PEM text.  Raises ``CannotAnswer``."""
    try:
        found = serialization.load_pem_private_key(pem.encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise CannotAnswer("the key file holds no private key that can be read without a password") from None
    if not isinstance(found, Key):
        raise CannotAnswer("hubs do not accept this kind of key; use p256, p384, ed25519 or rsa3072")
    return found


def key_pem(key: Key) -> str:
    """The key as PKCS 8 in PEM, not encrypted: the mode of its file protects it."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


def request_der(key: Key, node: str) -> bytes:
    """A certificate request for ``key``; with ``node`` it carries that name."""
    named = bool(node) and len(node) <= COMMON_NAME_CHARS_MAX
    subject = [x509.NameAttribute(NameOID.COMMON_NAME, node)] if named else []
    builder = x509.CertificateSigningRequestBuilder(x509.Name(subject))
    if node:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(node)]), critical=False)
    return builder.sign(key, _digest(key)).public_bytes(serialization.Encoding.DER)


def sign(key: Key, content: bytes) -> bytes:
    """A signature of ``content``, with the algorithm of the key's kind."""
    match key:
        case ec.EllipticCurvePrivateKey():
            return key.sign(content, ec.ECDSA(hashes.SHA256()))
        case ed25519.Ed25519PrivateKey():
            return key.sign(content)
        case rsa.RSAPrivateKey():
            scheme = padding.PSS(mgf=padding.MGF1(hashes.SHA256()), salt_length=hashes.SHA256.digest_size)
            return key.sign(content, scheme, hashes.SHA256())


def _digest(key: Key) -> hashes.SHA256 | None:
    return None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()


def answer(question: dict[str, Any]) -> dict[str, str]:
    """The answer to a question.  Raises ``CannotAnswer``."""
    match question:
        case {"operation": "make", "kind": str(kind), "node": str(node)}:
            key = make_key(kind)
            return {"key": key_pem(key), "request": _base64(request_der(key, node))}
        case {"operation": "request", "key": str(pem), "node": str(node)}:
            return {"request": _base64(request_der(read_key(pem), node))}
        case {"operation": "sign", "key": str(pem), "content": str(content)}:
            try:
                return {"signature": _base64(sign(read_key(pem), base64.b64decode(content, validate=True)))}
            except binascii.Error:
                raise CannotAnswer("the content to be signed is not base64") from None
        case {"operation": "reaches", "chain": str(pem), "authorities": str(authorities)}:
            try:
                return {"reaches": "yes" if authority_bundle.reaches(pem.encode(), authorities.encode()) else "no"}
            except ValueError:
                raise CannotAnswer("the hub's certificates cannot be read") from None
        case _:
            raise CannotAnswer("unknown question")


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def main() -> int:
    """Answer the question on standard input."""
    try:
        question = msgspec.json.decode(sys.stdin.buffer.read(QUESTION_BYTES_MAX), type=dict[str, Any])
        answered, code = answer(question), 0
    except (CannotAnswer, ValueError) as error:
        answered, code = {"error": str(error)}, 1
    sys.stdout.buffer.write(msgspec.json.encode(answered))
    sys.stdout.buffer.flush()
    return code


if __name__ == "__main__":
    sys.exit(main())
