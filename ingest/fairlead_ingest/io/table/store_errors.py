"""What an object store answers, as one sentence of ours with a code and the remedy."""

from __future__ import annotations

import datetime
import html
import os
import platform
import re
from typing import Final

from fairlead_ingest import errors
from fairlead_ingest.table.store_path import StorePath

SENTENCE_CHARS_MAX: Final = 400
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
"""What a store of another region answers, or one that lacks what we need: no waiting heals it."""
_DENIED_WORDS = (
    "lacked the necessary privileges",
    "403 Forbidden",
    "401 Unauthorized",
    "missing or invalid credentials",
)
_FULL = re.compile(r"Quota|StorageFull")
_REDIRECT: Final = "redirect without LOCATION"
"""What the libraries say of a bucket in another region."""
_PUTTING: Final = "Error performing PUT"
"""Not found there, it is no object: something else than the store answers, a gateway that has lost it, say."""
_MISTAKES: Final = ("Missing AccessKeyId", "Missing SecretAccessKey", "Generic Config error")
_DISTRUST = re.compile(r"(?:InvalidCertificate\(|invalid peer certificate\W+)\s*(\w+)")
"""As obstore and delta-rs say it."""
ENDED: Final = "ExpiredToken"
"""What a store answers to credentials that were good and are so no more."""
_STS: Final = "POST REDACTED"
"""As obstore and delta-rs name the request for a role's credentials: its address holds the token."""
_NO_TOKEN: Final = "Failed to read token file"
_ASKING: Final = ("Generic S3 error", "Error performing")
_MACHINE: Final = ("//169.254.169.254", "//169.254.170.2")
"""Where the libraries ask for the credentials of the machine, or of its container, when none are given."""
NO_KEY: Final = (
    "no access key is given, and this machine has no role of its own: set access_key_id and secret_access_key_file in"
    " [storage], or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment"
)
TOGETHER: Final = "the key and its secret belong together, in [storage] or in the environment"


def explain(path: StorePath, error: BaseException) -> errors.Stop | errors.Wait:
    """Which of the few things it can be, in a sentence that names the remedy.

    The libraries tell wrong keys, missing buckets and stores that are away apart by their texts alone.
    """
    if isinstance(error, errors.Stop | errors.Wait):
        return error
    text = _plain(error)
    code, message = _answer(text)
    said = f"{code}: {message}" if code else sentence(error)
    where = f"{path} at {path.storage.endpoint_url or 'the endpoint of the environment'}"
    if any(place in text for place in _MACHINE):
        is_denied = any(words in text for words in _DENIED_WORDS)
        reason = f"{where}: {NO_KEY}; asked for it: {said}"
        return errors.Stop(errors.STORE_DENIED, reason) if is_denied else errors.Wait(errors.STORE_AWAY, reason)
    if _STS in text or _NO_TOKEN in text:
        return _of_role(where, code, said, text)
    if code == "NoSuchBucket":
        return errors.Stop(errors.STORE_UNFIT, f"{where}: there is no bucket {path.bucket}; make it, or correct table")
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
            f"{where}: {said}; these credentials have ended: new ones are asked for where a web identity gives them,"
            " and read where files hold them",
        )
    if code in _DENIED or any(words in text for words in _DENIED_WORDS):
        return errors.Stop(
            errors.STORE_DENIED,
            f"{where}: {said}; check the access key and its secret, and that they may get, put, list and delete here",
        )
    if not code and any(words in text for words in _MISTAKES):
        return errors.Stop(errors.BAD_OPTION, f"{path}: {said}; {TOGETHER}")
    if "Json error" in text and not any(words in text for words in _ASKING):
        return errors.Stop(errors.TABLE_UNFIT, f"{where}: an entry of its log cannot be read: {said}")
    if code == "NoSuchKey" or (not code and isinstance(error, FileNotFoundError) and _PUTTING not in text):
        return errors.Stop(errors.TABLE_UNFIT, f"{where}: an object that should be there is not: {said}")
    if distrust := _DISTRUST.search(text):
        return errors.Wait(
            errors.STORE_AWAY,
            f"{where}: its certificate is not believed ({distrust[1]}); where a private authority signed it, name"
            " a file with that authority's certificate in SSL_CERT_FILE, for driver and executors",
        )
    return errors.Wait(errors.STORE_AWAY, f"{where}: {said}")


def _of_role(where: str, code: str, said: str, text: str) -> errors.Stop | errors.Wait:
    """What came of asking for credentials by a web identity."""
    role, file = (os.environ.get(name, "") for name in ("AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE"))
    if code in _DENIED or _NO_TOKEN in text:
        return errors.Stop(
            errors.STORE_DENIED,
            f"{where}: no credentials for the role {role}: {said}; check that the token in {file} is renewed"
            " (AWS_WEB_IDENTITY_TOKEN_FILE), and that the role trusts this identity (AWS_ROLE_ARN)",
        )
    found = _DISTRUST.search(text)
    reason = (
        f"its certificate is not believed ({found[1]}): its authority belongs into SSL_CERT_FILE" if found else said
    )
    return errors.Wait(
        errors.STORE_AWAY,
        f"{where}: the service that gives credentials for the role {role} (STS, AWS_ENDPOINT_URL_STS): {reason}",
    )


def _plain(error: BaseException) -> str:
    return _SPACE.sub(" ", _COLOUR.sub("", str(error))).strip()


def sentence(error: BaseException) -> str:
    """The libraries' own words, on one line."""
    return _plain(error).partition(" Debug source")[0][:SENTENCE_CHARS_MAX]


def _answer(text: str) -> tuple[str, str]:
    """What an S3 server says in its XML, "" where it says nothing: its word for programs, its sentence for people."""
    code, message = _CODE.search(text), _MESSAGE.search(text)
    said = html.unescape(message[1])[:SENTENCE_CHARS_MAX] if message else "no reason given"
    return (code[1] if code else ""), said
