"""Objects in a store, with obstore: the library that delta-rs uses too, with the same options and credentials.

    Upload  one put below 5 MB, a multipart upload above; the object appears complete and durable, or not at all
    read    a whole object, its tail or a range; ``found`` reads one that may not exist
    write   one object; ``below`` lists objects, ``sizes`` their sizes; ``delete`` one, ``delete_below`` several
    probe   checks that the store accepts exactly one of two conditional puts of the same key

Credentials come from the environment (``AWS_ACCESS_KEY_ID``, …, web identity) or from files named in the settings. They
are read in the process that needs them, and are never in the options of a query.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import os
import uuid
from collections.abc import Callable, Collection, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import S3Store

from fairlead_ingest import errors
from fairlead_ingest.io.table import store_errors
from fairlead_ingest.io.table.store_errors import ENDPOINTS, TOGETHER, sentence
from fairlead_ingest.table import store_path
from fairlead_ingest.table.store_path import Storage, StorePath
from fairlead_wire.errors import cause_of

P = ParamSpec("P")
T = TypeVar("T")
CONNECT_SECONDS: Final = 2
REQUEST_SECONDS: Final = 10
RETRIES: Final = 2
RETRY_SECONDS: Final = 6
"""Short, so that an unavailable store is reported within seconds; the supervisor waits and retries."""
BUFFER_BYTES: Final = 5 * 1024 * 1024
"""Larger objects are uploaded in parts of this size."""
PROBE: Final = "_fairlead_probe"
_ONE_LINE: Final = "must be one line of printable characters (a line break at its end?)"
_IN_HEADERS: Final = ("AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_DEFAULT_REGION")
_STS: Final = "AWS_ENDPOINT_URL_STS"
_SECRET: Final = "AWS_SECRET_ACCESS_KEY"
SECRET_CHARS_MAX: Final = 16 * 1024


def storage_options(storage: Storage) -> dict[str, str]:
    """The options for delta-rs. Raises ``Stop`` if a file with a secret cannot be read."""
    options = {
        **_options(storage),
        "timeout": f"{REQUEST_SECONDS}s",
        "connect_timeout": f"{CONNECT_SECONDS}s",
        "max_retries": str(RETRIES),
        "retry_timeout": f"{RETRY_SECONDS}s",
    }
    if _is_plain(storage):
        options["aws_allow_http"] = "true"
    return options


def explain(path: StorePath, error: BaseException) -> errors.Stop | errors.Wait:
    """Explain an error. After refused credentials, the next request obtains new ones; by themselves, the libraries keep
    a role's credentials until their nominal expiry, even if the store refuses them."""
    found = store_errors.explain(path, error)
    if found.code == errors.STORE_DENIED:
        _kept.cache_clear()
    return found


def with_new_credentials(ask: Callable[P, T]) -> Callable[P, T]:
    """Decorator: repeat a request once with new credentials if the store says that they have expired."""

    @functools.wraps(ask)
    def asked(*args: P.args, **keywords: P.kwargs) -> T:
        try:
            return ask(*args, **keywords)
        except errors.Stop as error:
            if not _has_ended(error):
                raise
        return ask(*args, **keywords)

    return asked


def _has_ended(error: errors.Stop | errors.Wait) -> bool:
    return error.code == errors.STORE_DENIED and store_errors.ENDED in error.sentence


class Upload:
    """A binary file to write to; the object exists only when ``finish`` has returned.

    ``close`` does nothing, because a Parquet writer also closes its file when it fails.
    """

    closed = False

    def __init__(self, path: StorePath) -> None:
        self._path = path
        self._size = 0
        self._writer = obstore.open_writer(_store(path), path.key, buffer_size=BUFFER_BYTES)

    def write(self, data: bytes) -> int:
        """Write bytes. Raises ``Wait``, ``Stop``."""
        try:
            self._writer.write(data)
        except (BaseError, OSError) as error:
            raise explain(self._path, error) from error
        self._size += len(data)
        return len(data)

    def flush(self) -> None:
        """Do nothing; parts are sent when they are full."""

    def tell(self) -> int:
        return self._size

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        """Do nothing; see the class."""

    def finish(self) -> int:
        """Complete the upload; return the size. Raises ``Wait``, ``Stop``."""
        try:
            self._writer.close()
        except (BaseError, OSError) as error:
            raise explain(self._path, error) from error
        return self._size


@with_new_credentials
def read(path: StorePath) -> bytes:
    """The whole object.  Raises ``Wait``, ``Stop``."""
    try:
        return bytes(obstore.get(_store(path), path.key).bytes())
    except (BaseError, OSError) as error:
        raise explain(path, error) from error


@with_new_credentials
def read_tail(path: StorePath, size: int) -> tuple[bytes, int]:
    """Up to ``size`` bytes from the end of the object, and its whole size. Raises ``Wait``, ``Stop``."""
    try:
        answer = obstore.get(_store(path), path.key, options={"range": {"suffix": size}})
        return bytes(answer.bytes()), answer.meta["size"]
    except (BaseError, OSError) as error:
        raise explain(path, error) from error


@with_new_credentials
def read_range(path: StorePath, begin: int, end: int) -> bytes:
    """The bytes from ``begin`` to before ``end``. Raises ``Wait``, ``Stop``."""
    try:
        return bytes(obstore.get_range(_store(path), path.key, start=begin, end=end))
    except (BaseError, OSError) as error:
        raise explain(path, error) from error


@with_new_credentials
def found(path: StorePath) -> bytes | None:
    """The whole object, None if it does not exist. Raises ``Wait``, ``Stop``."""
    try:
        return bytes(obstore.get(_store(path), path.key).bytes())
    except FileNotFoundError as error:
        explained = explain(path, error)
        if isinstance(explained, errors.Stop) and explained.code == errors.TABLE_UNFIT:
            return None
        raise explained from error
    except (BaseError, OSError) as error:
        raise explain(path, error) from error


def sizes(path: StorePath) -> dict[str, int]:
    """The size of each object below ``path``, by relative name. Raises ``Wait``, ``Stop``."""
    return {each["path"].removeprefix(f"{path.key}/"): each["size"] for each in _objects(path)}


@with_new_credentials
def delete_below(path: StorePath, names: Collection[str]) -> None:
    """Delete objects below ``path``; they may already be gone. Raises ``Wait``, ``Stop``."""
    if not names:
        return
    try:
        obstore.delete(_store(path), [f"{path.key}/{name}" for name in names])
    except FileNotFoundError:
        pass
    except (BaseError, OSError) as error:
        raise explain(path, error) from error


@with_new_credentials
def write(path: StorePath, content: bytes) -> None:
    """Write a whole object. Raises ``Wait``, ``Stop``."""
    try:
        obstore.put(_store(path), path.key, content)
    except (BaseError, OSError) as error:
        raise explain(path, error) from error


@with_new_credentials
def delete(path: StorePath) -> None:
    """Delete an object; it may already be gone. Raises ``Wait``, ``Stop``."""
    try:
        obstore.delete(_store(path), path.key)
    except FileNotFoundError:
        return
    except (BaseError, OSError) as error:
        raise explain(path, error) from error


def below(path: StorePath) -> Iterator[tuple[str, float]]:
    """(relative path, modification time in seconds since 1970) of every object below. Raises ``Wait``, ``Stop``."""
    for each in _objects(path):
        yield each["path"].removeprefix(f"{path.key}/"), each["last_modified"].timestamp()


def _objects(path: StorePath) -> Iterator[obstore.ObjectMeta]:
    """List page by page; if credentials expire meanwhile, continue with new ones after the last object."""
    last: str | None = None
    is_refused = False
    while True:
        try:
            for page in obstore.list(_store(path), f"{path.key}/", offset=last):
                for each in page:
                    yield each
                    last = each["path"]
                is_refused = False
            return
        except (BaseError, OSError) as error:
            explained = explain(path, error)
            if is_refused or not _has_ended(explained):
                raise explained from error
            is_refused = True


@with_new_credentials
def probe(path: StorePath) -> None:
    """Raise ``Stop`` if the store cannot be used, ``Wait`` if it does not answer now."""
    store = _store(path)
    key = f"{path.key}/{PROBE}-{uuid.uuid4().hex}"
    try:
        obstore.put(store, key, b"one", mode="create")
        try:
            obstore.put(store, key, b"two", mode="create")
        except AlreadyExistsError:
            return
        finally:
            with contextlib.suppress(BaseError, OSError):  # at worst, a three-byte object is left
                obstore.delete(store, key)
    except (BaseError, OSError) as error:
        raise explain(path, error) from error
    raise errors.Stop(
        errors.STORE_UNFIT,
        f"{path}: this store accepts a conditional put of an existing object, so two jobs could commit the same version"
        " of a table; use one that supports If-None-Match (AWS, MinIO, versitygw 1.8 and newer, Ceph)",
    )


def _options(storage: Storage) -> dict[str, str]:
    """The options of obstore. Raises ``Stop`` for values with which the libraries would panic or report an outage."""
    for name, value in (("region", storage.region), ("access_key_id", storage.access_key_id)):
        if value is not None and not store_path.is_header(value):
            raise errors.Stop(errors.BAD_OPTION, f"[storage] {name}: {_ONE_LINE}")
    _check_environment(storage)
    found = {
        "aws_endpoint_url": storage.endpoint_url,
        "aws_region": storage.region,
        "aws_access_key_id": storage.access_key_id,
        "aws_secret_access_key": _secret("secret_access_key_file", storage.secret_access_key_file),
        "aws_session_token": _secret("session_token_file", storage.session_token_file),
        # The current default, set explicitly because exactly-once commits depend on it.
        "aws_conditional_put": "etag",
    }
    return {key: value for key, value in found.items() if value is not None}


def _check_environment(storage: Storage) -> None:
    """Check variables that the libraries use for missing settings. Values are not shown, as they may be secrets."""
    for name in (*_IN_HEADERS, _SECRET):
        value = os.environ.get(name, "")
        if value and not (value.isprintable() if name == _SECRET else store_path.is_header(value)):
            raise errors.Stop(errors.BAD_OPTION, f"{name} in the environment: {_ONE_LINE}")
    sts = os.environ.get(_STS, "")
    if os.environ.get("AWS_WEB_IDENTITY_TOKEN_FILE") and sts and not sts.startswith("https://"):
        raise errors.Stop(errors.BAD_OPTION, f"{_STS} in the environment: must be https://…, even on this machine")
    for name in () if storage.endpoint_url else ENDPOINTS:
        if address := os.environ.get(name):
            try:
                store_path.check_endpoint(address)
            except ValueError as error:
                raise errors.Stop(errors.BAD_OPTION, f"{name} in the environment: {error}") from None


def _is_plain(storage: Storage) -> bool:
    """Whether the endpoint is plain HTTP; the settings allow that only on this machine."""
    named = (storage.endpoint_url, *(os.environ.get(name) for name in ENDPOINTS))
    return next((each for each in named if each), "").startswith("http:")


def _secret(key: str, file: str | None) -> str | None:
    if file is None:
        return None
    try:
        with Path(file).open() as opened:
            text = opened.read(SECRET_CHARS_MAX).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise errors.Stop(errors.BAD_OPTION, f"[storage] {key} {file}: {cause_of(error)}") from None
    if not text or not text.isprintable() or (key == "session_token_file" and not store_path.is_header(text)):
        raise errors.Stop(errors.BAD_OPTION, f"[storage] {key} {file}: {_ONE_LINE}")
    return text


@lru_cache(maxsize=16)
def _kept(bucket: str, options: tuple[tuple[str, str], ...], is_plain: bool) -> S3Store:
    return S3Store(
        bucket,
        config=dict(options),  # type: ignore[arg-type]
        client_options={
            "timeout": datetime.timedelta(seconds=REQUEST_SECONDS),
            "connect_timeout": datetime.timedelta(seconds=CONNECT_SECONDS),
            "allow_http": is_plain,
        },
        retry_config={"max_retries": RETRIES, "retry_timeout": datetime.timedelta(seconds=RETRY_SECONDS)},
    )


def _store(path: StorePath) -> S3Store:
    """The client of a bucket, cached. Raises ``Stop``."""
    options = _options(path.storage)
    try:
        return _kept(path.bucket, tuple(sorted(options.items())), _is_plain(path.storage))
    except (BaseError, OSError, ValueError) as error:
        raise errors.Stop(errors.BAD_OPTION, f"{path}: {sentence(error)}; {TOGETHER}") from None
