"""Explains an object store's errors with a code and a sentence that names the remedy."""

from __future__ import annotations

import datetime
import html
import os
import platform
import re
from typing import Final

from fairlead_ingest import errors
from fairlead_ingest.table.store_path import StorePath
from fairlead_wire.validation import addresses

SENTENCE_CHARS_MAX: Final = 400
ENDPOINTS: Final = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT")
"""Variables with the store's address, for tables without one in the settings."""
_COLOUR = re.compile("\x1b\\[[0-9;]*m")
_SPACE = re.compile(r"\s+")
_CODE, _MESSAGE = re.compile(r"<Code>(\w{1,64})</Code>"), re.compile(r"<Message>([^<]*)</Message>")
_DENIED = frozenset(
    {
        "AccessDenied",
        "InvalidAccessKeyId",
        "SignatureDoesNotMatch",
        "ExpiredToken",
        "ExpiredTokenException",
        "IDPRejectedClaim",
        "InvalidIdentityToken",
        "InvalidToken",
        "XAdminUserNotFound",
    }
)
_MISFITS = frozenset(
    {
        "AuthorizationHeaderMalformed",
        "IllegalLocationConstraintException",
        "InvalidBucketName",
        "MethodNotAllowed",
        "NotImplemented",
        "PermanentRedirect",
    }
)
"""Answers of a store in another region, or without a feature we need; waiting does not help."""
_DENIED_WORDS = (
    "lacked the necessary privileges",
    "403 Forbidden",
    "401 Unauthorized",
    "missing or invalid credentials",
)
_FULL = re.compile(r"Quota|StorageFull")
_REDIRECT: Final = "redirect without LOCATION"
"""The libraries' text for a bucket in another region."""
_PUTTING: Final = "Error performing PUT"
"""A put that is "not found" is not about an object; something other than the store answers, such as a gateway."""
_MISTAKES: Final = ("Missing AccessKeyId", "Missing SecretAccessKey", "Generic Config error")
_DISTRUST = re.compile(r"(?:InvalidCertificate\(|invalid peer certificate\W+)\s*(\w+)")
"""The texts of obstore and delta-rs for an untrusted certificate."""
ENDED: Final = "ExpiredToken"
"""A store's answer to expired credentials."""
_STS: Final = "POST REDACTED"
"""How obstore and delta-rs name the request for a role's credentials, as its URL contains the token."""
_NO_TOKEN: Final = "Failed to read token file"
_ASKING: Final = ("Generic S3 error", "Error performing")
_MACHINE: Final = ("//169.254.169.254", "//169.254.170.2")
"""Where the libraries request the credentials of the machine or container if none are given."""
NO_KEY: Final = (
    "there is no access key, and this machine has no role: set access_key_id and secret_access_key_file in [storage],"
    " or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment"
)
TOGETHER: Final = "the key and its secret belong together, in [storage] or in the environment"


def explain(path: StorePath, error: BaseException) -> errors.Stop | errors.Wait:
    """Classify the error, with a sentence that names the remedy.

    The libraries distinguish wrong keys, missing buckets and unavailable stores only by the texts of their errors.
    """
    if isinstance(error, errors.Stop | errors.Wait):
        return error
    text = _plain(error)
    code, message = _answer(text)
    said = f"{code}: {message}" if code else sentence(error)
    where = f"{path} at {_endpoint(path)}"
    if any(place in text for place in _MACHINE):
        is_denied = any(words in text for words in _DENIED_WORDS)
        reason = f"{where}: {NO_KEY}; the request for the role's credentials: {said}"
        return errors.Stop(errors.STORE_DENIED, reason) if is_denied else errors.Wait(errors.STORE_AWAY, reason)
    if _STS in text or _NO_TOKEN in text:
        return _of_role(where, code, said, text)
    if code == "NoSuchBucket":
        remedy = "create it, or correct table"
        return errors.Stop(errors.STORE_UNFIT, f"{where}: there is no bucket {path.bucket}; {remedy}")
    if code == "RequestTimeTooSkewed":
        here = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        return errors.Wait(
            errors.STORE_AWAY,
            f"{where}: {said}; the clock of this machine ({platform.node()}) says {here}: set it, or the store's",
        )
    if _FULL.search(code):
        return errors.Wait(errors.DISK_FULL, f"{where}: {said}")
    if code in _MISFITS or _REDIRECT in text:
        return errors.Stop(errors.STORE_UNFIT, f"{where}: {said}; check the endpoint, the region and the bucket")
    if code == ENDED:
        return errors.Stop(
            errors.STORE_DENIED,
            f"{where}: {said}; these credentials have expired; new ones are requested (web identity) or read again"
            " (files)",
        )
    if code in _DENIED or any(words in text for words in _DENIED_WORDS):
        return errors.Stop(
            errors.STORE_DENIED,
            f"{where}: {said}; check the access key, its secret, and its permissions to get, put, list and delete here",
        )
    if not code and any(words in text for words in _MISTAKES):
        return errors.Stop(errors.BAD_OPTION, f"{path}: {said}; {TOGETHER}")
    if "Json error" in text and not any(words in text for words in _ASKING):
        return errors.Stop(errors.TABLE_UNFIT, f"{where}: an entry of its log cannot be read: {said}")
    if code == "NoSuchKey" or (not code and isinstance(error, FileNotFoundError) and _PUTTING not in text):
        return errors.Stop(errors.TABLE_UNFIT, f"{where}: an object of the table is missing: {said}")
    if distrust := _DISTRUST.search(text):
        return errors.Wait(
            errors.STORE_AWAY,
            f"{where}: its certificate is not trusted ({distrust[1]}); if a private authority signed it, set"
            " SSL_CERT_FILE to a file with that authority's certificate, for driver and executors",
        )
    return errors.Wait(errors.STORE_AWAY, f"{where}: {said}")


def _endpoint(path: StorePath) -> str:
    """Which store answered, and where its address comes from."""
    if path.storage.endpoint_url:
        return f"{path.storage.endpoint_url} (from [storage] endpoint_url)"
    for name in ENDPOINTS:
        if address := os.environ.get(name):
            return f"{addresses.shown(address)} (from {name})"
    return "AWS"


def _of_role(where: str, code: str, said: str, text: str) -> errors.Stop | errors.Wait:
    """Explain a failed request for credentials by web identity."""
    role, file = (os.environ.get(name, "") for name in ("AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE"))
    if code in _DENIED or _NO_TOKEN in text:
        return errors.Stop(
            errors.STORE_DENIED,
            f"{where}: no credentials for the role {role}: {said}; check that the token in {file} is renewed"
            " (AWS_WEB_IDENTITY_TOKEN_FILE), and that the role trusts this identity (AWS_ROLE_ARN)",
        )
    found = _DISTRUST.search(text)
    reason = f"its certificate is not trusted ({found[1]}); add its authority to SSL_CERT_FILE" if found else said
    return errors.Wait(
        errors.STORE_AWAY,
        f"{where}: the service that issues credentials for the role {role} (STS, AWS_ENDPOINT_URL_STS): {reason}",
    )


def _plain(error: BaseException) -> str:
    return _SPACE.sub(" ", _COLOUR.sub("", str(error))).strip()


def sentence(error: BaseException) -> str:
    """The libraries' own text, on one line."""
    return _plain(error).partition(" Debug source")[0][:SENTENCE_CHARS_MAX].rstrip(" .")


def _answer(text: str) -> tuple[str, str]:
    """The code and message in an S3 server's XML; the code is "" if there is none."""
    code, message = _CODE.search(text), _MESSAGE.search(text)
    # Without its full stop, because a remedy follows.
    said = html.unescape(message[1])[:SENTENCE_CHARS_MAX].rstrip(" .") if message else "no reason given"
    return (code[1] if code else ""), said
