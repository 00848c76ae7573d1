"""Takes what may be a secret out of documents and texts that are given to others.

By name (a key that says password, token, secret …) and by form (private keys, bearer tokens, JSON web tokens, passwords
in addresses, our own join tokens).  Better one harmless value too many.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

HIDDEN: Final = "(hidden)"
NESTING_MAX: Final = 100
_NAMES: Final = re.compile(
    r"passw(or)?d|passphrase|secret|token|credential|authorization|cookie|private|api[-_]?key|access[-_]?key|signature",
    re.IGNORECASE,
)
HARMLESS: Final = frozenset(
    ["secretname", "secretref", "secretkeyref", "automountserviceaccounttoken", "token_file", "tokens_file", "secrets"]
)
"""Names of Secrets, not what is in them."""
_ASSIGNED: Final = re.compile(
    r"""((?:[\w.-]*(?:passw(?:or)?d|passphrase|secret|token|credential|api[-_]?key|access[-_]?key)[\w.-]*)["']?\s*[=:]\s*)"""
    r"""("[^"\n]*"|'[^'\n]*'|[^\s,;}"']+)""",
    re.IGNORECASE,
)
_FORMS: Final = (
    re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)", re.DOTALL),
    re.compile(r"\bBearer\s+[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE),
    re.compile(r"\bBasic\s+[A-Za-z0-9+/=]{8,}"),
    re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?"),
    re.compile(r"\bfl1-[A-Za-z0-9_-]{8,}"),
    re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
)
_ADDRESS: Final = re.compile(r"([a-z][a-z0-9+.-]*://)[^/\s@\"']+@", re.IGNORECASE)
_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""The whole object again, as text."""


def document(value: Any, depth: int = 0) -> Any:
    """JSON data without what may be a secret."""
    if depth > NESTING_MAX:
        return HIDDEN
    if isinstance(value, Mapping):
        if str(value.get("kind")) == "Secret" and "metadata" in value:
            return {"kind": "Secret", "metadata": document(value["metadata"], depth + 1), "data": HIDDEN}
        return {key: _entry(str(key), each, value, depth) for key, each in value.items() if key != _APPLIED}
    if isinstance(value, list):
        return [document(each, depth + 1) for each in value]
    return text(value) if isinstance(value, str) else value


def _entry(key: str, value: Any, around: Mapping[str, Any], depth: int) -> Any:
    if isinstance(value, str | int | float) and not isinstance(value, bool) and value != "":
        # A container's variable: {"name": "DB_PASSWORD", "value": "…"}
        named = key == "value" and _NAMES.search(str(around.get("name", ""))) is not None
        if named or (_NAMES.search(key) and key.lower() not in HARMLESS):
            return HIDDEN
    return document(value, depth + 1)


def text(content: str) -> str:
    """Text without what may be a secret; what is left reads as before."""
    for form in _FORMS:
        content = form.sub(HIDDEN, content)
    content = _ADDRESS.sub(rf"\1{HIDDEN}@", content)
    return _ASSIGNED.sub(rf"\1{HIDDEN}", content)
