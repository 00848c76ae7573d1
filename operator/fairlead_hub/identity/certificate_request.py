"""Signer ``cert-manager``: the request to it, and its answer.  ``io.identity.cert_manager_signer`` sends it.

    Template ─body─▶ CertificateRequest ─ cert-manager ─▶ its status ─judge─▶ PEM, None (wait), or why not

cert-manager signs the names in the device's request, chooses the serial number and the times, and may require approval
by a person.  So its answer is compared with the request, including the key and the name.
"""

from __future__ import annotations

import base64
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import NameOID

from fairlead_hub.identity import certificate_profile
from fairlead_hub.identity.signer import CertificateTemplate, SignedCertificate, SignerUnavailable, serial_text
from fairlead_wire.identity.node_names import NodeNames

GROUP: Final = "cert-manager.io"
NODE: Final = "fairlead.dev/node"
MANAGED: Final = {"app.kubernetes.io/managed-by": "fairlead-hub"}
ANSWER_CHARS_MAX: Final = 256 * 1024
CHAIN_MAX: Final = 8
REFUSED_RETRY_SECONDS: Final = 600.0
"""It stays refused: another request requires another token or another issuer."""


def issuer_reference(setting: str) -> dict[str, str]:
    """Parse ``[identity] issuer``: ``NAME``, or ``ClusterIssuer/NAME``."""
    kind, _, name = setting.rpartition("/")
    return {"group": GROUP, "kind": kind or "Issuer", "name": name}


def name_of(template: CertificateTemplate) -> str:
    """The same template gives the same name, so that a hub that takes over finds its predecessor's request."""
    return f"fairlead-{serial_text(template.serial)}"


def body(template: CertificateTemplate, issuer: str) -> dict[str, Any]:
    """The CertificateRequest to create."""
    asked = template.not_after - template.not_before
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "CertificateRequest",
        "metadata": {"name": name_of(template), "labels": MANAGED, "annotations": {NODE: template.names.node}},
        "spec": {
            "request": base64.b64encode(_pem(template.request.der)).decode(),
            "duration": f"{int(asked.total_seconds())}s",
            "isCA": False,
            "usages": ["digital signature", "client auth", "server auth"],
            "issuerRef": issuer_reference(issuer),
        },
    }


def _pem(der: bytes) -> bytes:
    lines = "\n".join(textwrap.wrap(base64.b64encode(der).decode(), 64))
    return f"-----BEGIN CERTIFICATE REQUEST-----\n{lines}\n-----END CERTIFICATE REQUEST-----\n".encode()


def is_same(document: Mapping[str, Any], template: CertificateTemplate) -> bool:
    """Whether an existing request is for this key.  A device that asks again signs a new request."""
    spec = document.get("spec")
    asked = spec.get("request") if isinstance(spec, dict) else None
    try:
        request = x509.load_pem_x509_csr(base64.b64decode(str(asked)[:ANSWER_CHARS_MAX]))
        return _public(request) == template.request.public_key
    except (ValueError, TypeError):
        return False


def _public(found: x509.Certificate | x509.CertificateSigningRequest) -> bytes:
    der, info = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    return found.public_key().public_bytes(der, info)


# ---- the answer ----------------------------------------------------------------------------------


def answer(document: Mapping[str, Any]) -> bytes | None:
    """The signed PEM, or None while there is no answer.  Raises ``SignerUnavailable`` if there will be none."""
    status = document.get("status")
    status = status if isinstance(status, dict) else {}
    for kind, said in (
        ("Denied", "was denied by its approver"),
        ("InvalidRequest", "is not valid for cert-manager"),
    ):
        found = _condition(status, kind)
        if found.get("status") == "True":
            raise _refused(document, said, found)
    ready = _condition(status, "Ready")
    if ready.get("status") == "False" and ready.get("reason") in ("Failed", "Denied"):
        raise _refused(document, "failed", ready)
    text = status.get("certificate")
    if ready.get("status") != "True" or not isinstance(text, str) or not text:
        return None
    try:
        return base64.b64decode(text[:ANSWER_CHARS_MAX], validate=True)
    except ValueError:
        raise SignerUnavailable("cert-manager's answer cannot be read", retry_after_seconds=60.0) from None


def waits_for(document: Mapping[str, Any]) -> str:
    """Why there is no answer yet, for the message of a timeout."""
    status = document.get("status")
    status = status if isinstance(status, dict) else {}
    if not document:
        return "the API server did not answer"
    name = _name(document)
    ready = _condition(status, "Ready")
    if _condition(status, "Approved").get("status") != "True":
        return f"it waits for approval: kubectl get certificaterequest {name}; cmctl approve {name}"
    return f"{ready.get('reason', 'no controller took it')}: {str(ready.get('message', ''))[:256]}"


def _refused(document: Mapping[str, Any], said: str, condition: Mapping[str, Any]) -> SignerUnavailable:
    reason = f"CertificateRequest {_name(document)} {said} ({str(condition.get('message', ''))[:256]})"
    return SignerUnavailable(reason, retry_after_seconds=REFUSED_RETRY_SECONDS)


def _condition(status: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    conditions = status.get("conditions")
    for each in conditions if isinstance(conditions, list) else ():
        if isinstance(each, dict) and each.get("type") == kind:
            return each
    return {}


def _name(document: Mapping[str, Any]) -> str:
    metadata = document.get("metadata")
    return str(metadata.get("name", "")) if isinstance(metadata, dict) else ""


def issued(pem: bytes, template: CertificateTemplate, trusted: Sequence[bytes]) -> SignedCertificate:
    """Compare the answer with the request.  ``trusted``: authorities (DER) that the link trusts.

    Raises ``SignerUnavailable`` if the issuer makes certificates that no node could use.
    """
    try:
        leaf, *above = x509.load_pem_x509_certificates(pem)
        if wrong := _wrong(leaf, above, template, trusted):
            raise SignerUnavailable(f"the issuer's certificate {wrong}", retry_after_seconds=REFUSED_RETRY_SECONDS)
    except (ValueError, TypeError):
        raise SignerUnavailable("cert-manager's answer is not a certificate", retry_after_seconds=60.0) from None
    shown = [leaf, *(each for each in above[:CHAIN_MAX] if each.issuer != each.subject)]
    return SignedCertificate(
        node=template.names.node,
        chain=b"".join(each.public_bytes(serialization.Encoding.PEM) for each in shown),
        serial=serial_text(leaf.serial_number),
        issuer=_issuer(leaf),
        not_before=leaf.not_valid_before_utc,
        not_after=leaf.not_valid_after_utc,
    )


def _wrong(
    leaf: x509.Certificate, above: list[x509.Certificate], template: CertificateTemplate, trusted: Sequence[bytes]
) -> str:
    public = leaf.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    if public != template.request.public_key:
        return "has a key other than the requested one"
    if (name := _identity(leaf)) != template.names.node:
        return f"names {name[:64] or 'nothing'!r}, not the node"
    if strange := _others(leaf, template.names):
        return f"names {strange[:64]!r} beside the node"
    try:
        if leaf.extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
            return "is that of an authority"
    except x509.ExtensionNotFound:
        pass
    if template.revoked_before is not None and leaf.not_valid_before_utc < template.revoked_before:
        return "begins before the moment at which the old identity was revoked: use an issuer that does not backdate"
    if trusted and not certificate_profile.leads_to((leaf, *above), trusted):
        return f"is signed by {_issuer(leaf)}, which link_ca does not trust: add it there first"
    return ""


def _identity(leaf: x509.Certificate) -> str:
    """The identity as the link reads it."""
    for attribute in leaf.subject.get_attributes_for_oid(NameOID.COMMON_NAME):
        return str(attribute.value)
    return next(iter(_dns(leaf)), "")


def _others(leaf: x509.Certificate, names: NodeNames) -> str:
    return next((each for each in _dns(leaf) if each not in names.dns), "")


def _dns(leaf: x509.Certificate) -> list[str]:
    try:
        found = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return found.get_values_for_type(x509.DNSName)


def _issuer(leaf: x509.Certificate) -> str:
    for attribute in leaf.issuer.get_attributes_for_oid(NameOID.COMMON_NAME):
        return str(attribute.value)
    return leaf.issuer.rfc4514_string()
