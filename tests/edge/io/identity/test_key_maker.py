"""Keys and requests are of the kinds that hubs take; questions that cannot be answered get a sentence."""

from __future__ import annotations

import base64
import re

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa

from fairlead_edge.io.identity import key_maker


def made(kind: str = "p256", node: str = "") -> tuple[str, x509.CertificateSigningRequest]:
    answer = key_maker.answer({"operation": "make", "kind": kind, "node": node})
    return answer["key"], x509.load_der_x509_csr(base64.b64decode(answer["request"]))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["p256", "p384", "ed25519", "rsa3072"])
def test_each_kind_makes_a_request_that_proves_its_key(kind: str) -> None:
    pem, request = made(kind)
    assert request.is_signature_valid and not list(request.subject) and not list(request.extensions)
    again = key_maker.answer({"operation": "request", "key": pem, "node": ""})
    same = x509.load_der_x509_csr(base64.b64decode(again["request"]))
    assert same.public_key() == request.public_key()

    question = {"operation": "sign", "key": pem, "content": base64.b64encode(b"content").decode()}
    signature = base64.b64decode(key_maker.answer(question)["signature"])
    match request.public_key():
        case ec.EllipticCurvePublicKey() as public:
            public.verify(signature, b"content", ec.ECDSA(hashes.SHA256()))
        case ed25519.Ed25519PublicKey() as public:
            public.verify(signature, b"content")
        case rsa.RSAPublicKey() as public:
            scheme = padding.PSS(mgf=padding.MGF1(hashes.SHA256()), salt_length=32)
            public.verify(signature, b"content", scheme, hashes.SHA256())
        case other:
            raise AssertionError(other)


@pytest.mark.parametrize(("node", "common_names"), [("shop-17", ["shop-17"]), ("a" * 65, [])])
def test_a_request_carries_the_name_it_was_given(node: str, common_names: list[str]) -> None:
    _, request = made(node=node)
    assert [each.value for each in request.subject] == common_names
    [names] = list(request.extensions)
    assert isinstance(names.value, x509.SubjectAlternativeName)
    assert names.value.get_values_for_type(x509.DNSName) == [node]


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ({}, "unknown question"),
        ({"operation": "make", "kind": "dsa", "node": ""}, "keys of kind 'dsa' are not supported; use p256"),
        ({"operation": "request", "key": "no key", "node": ""}, "no private key that can be read"),
        ({"operation": "sign", "key": "no key", "content": ""}, "no private key that can be read"),
    ],
)
def test_what_cannot_be_answered_is_a_sentence(question: dict[str, str], sentence: str) -> None:
    with pytest.raises(key_maker.CannotAnswer, match=re.escape(sentence)):
        key_maker.answer(question)


def test_content_that_is_not_base64_is_a_sentence() -> None:
    pem, _ = made()
    with pytest.raises(key_maker.CannotAnswer, match="not base64"):
        key_maker.answer({"operation": "sign", "key": pem, "content": "*"})
