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
_SAYS: Final = r"passw(?:or)?d|passphrase|secret|token|credential|api[-_]?key|access[-_]?key|account[-_]?key"
_NAMES: Final = re.compile(
    rf"{_SAYS}|authorization|cookie|private|signature|pwd|(?:^|[-_])pass(?:$|[-_])",
    re.IGNORECASE,
)
HARMLESS: Final = frozenset(
    ["secretname", "secretref", "secretkeyref", "automountserviceaccounttoken", "token_file", "tokens_file", "secrets"]
)
"""Names of Secrets, not what is in them."""
_VALUE: Final = r"""(?:"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|\\{1,8}["'][^"'\n]*["']?|[^\s,;}"'\\]+)"""
"""In quotes, in quotes of JSON inside of JSON, or bare."""
# Nothing here looks for the beginning of a word, and repetitions have limits: a log may hold a line of many megabytes,
# and a pattern that begins with "any letters" would try each of them again from each of them.
_ASSIGNED: Final = re.compile(
    rf"""((?:{_SAYS}|\bpass|pwd|\bsig)[\w.-]{{0,64}}\\{{0,8}}["']?\s{{0,8}}[=:]\s{{0,8}}){_VALUE}""",
    re.IGNORECASE,
)
_HEADER: Final = re.compile(
    r"""((?:authorization|cookie)\\{0,8}["']?\s{0,8}[=:]\s{0,8}\\{0,8}["']?)[^"'\n\\]+""", re.IGNORECASE
)
_OPTION: Final = re.compile(
    rf"(--[\w-]{{0,32}}(?:{_SAYS})(?![\w-]{{0,32}}file)[\w-]{{0,32}}[ \t]{{1,8}}){_VALUE}", re.IGNORECASE
)
_FLAG: Final = re.compile(rf"--?[\w-]{{0,32}}(?:{_SAYS})(?![\w-]{{0,32}}file)[\w-]{{0,32}}", re.IGNORECASE)
"""A word of a command whose next word is the value."""
_FORMS: Final = (
    re.compile(
        r"-----BEGIN [A-Z0-9 ]{0,64}PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]{0,64}PRIVATE KEY-----|\Z)", re.DOTALL
    ),
    re.compile(r"\bBearer\s{1,8}[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE),
    re.compile(r"\bBasic\s{1,8}[A-Za-z0-9+/=]{8,}"),
    re.compile(r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?"),
    re.compile(r"\bfl1-[A-Za-z0-9_-]{8,}"),
    re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
)
_ADDRESS: Final = re.compile(r"(://)(?:[^/\s@\"']+|[^/\s@\"':]{1,512}:[^\s@\"']{1,1024})@")
_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""The whole object again, as text."""


def document(value: Any, depth: int = 0) -> Any:
    """JSON data without what may be a secret."""
    if depth > NESTING_MAX:
        return HIDDEN
    if isinstance(value, Mapping):
        if str(value.get("kind")) == "Secret" and not value.keys().isdisjoint(("metadata", "data", "stringData")):
            return {"kind": "Secret", "metadata": document(value.get("metadata"), depth + 1), "data": HIDDEN}
        return {key: _entry(str(key), each, value, depth) for key, each in value.items() if key != _APPLIED}
    if isinstance(value, list):
        return [
            HIDDEN
            if isinstance(before, str) and _FLAG.fullmatch(before) and isinstance(each, str)
            else document(each, depth + 1)
            for before, each in zip((None, *value), value, strict=False)
        ]
    return text(value) if isinstance(value, str) else value


def _entry(key: str, value: Any, around: Mapping[str, Any], depth: int) -> Any:
    # A container's variable: {"name": "DB_PASSWORD", "value": "…"}
    named = key == "value" and _NAMES.search(str(around.get("name", ""))) is not None
    if named or (_NAMES.search(key) and key.lower() not in HARMLESS):
        if _is_scalar(value):
            return HIDDEN
        if isinstance(value, list):
            return [HIDDEN if _is_scalar(each) else document(each, depth + 1) for each in value]
    return document(value, depth + 1)


def _is_scalar(value: Any) -> bool:
    """A text or a number; whether something is set at all is no secret."""
    return isinstance(value, str | int | float) and not isinstance(value, bool) and value != ""


def text(content: str) -> str:
    """Text without what may be a secret; what is left reads as before."""
    for form in _FORMS:
        content = form.sub(HIDDEN, content)
    content = _ADDRESS.sub(rf"\1{HIDDEN}@", content)
    for named in (_HEADER, _OPTION, _ASSIGNED):
        content = named.sub(rf"\1{HIDDEN}", content)
    return content
