"""Objects in a store, through obstore: the library below delta-rs, with the same options and the same credentials.

    Upload  one put below 5 MB, a multipart upload above; complete and durable (as the store promises it) or not there
    read    a whole object, its tail or a range; ``found`` one that may not be there
    write   one; ``below``: what there is, ``sizes`` of all; ``delete`` one, ``delete_below`` several
    probe   does the store keep its word: of two conditional puts of one key exactly one is taken

Credentials come from the environment (``AWS_ACCESS_KEY_ID``, …, web identity), or from files named in the settings;
they are read here, in the process that needs them, and are in no option of a query.
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
from fairlead_ingest.io.table.store_errors import TOGETHER, sentence
from fairlead_ingest.table import store_path
from fairlead_ingest.table.store_path import Storage, StorePath

P = ParamSpec("P")
T = TypeVar("T")
CONNECT_SECONDS: Final = 2
REQUEST_SECONDS: Final = 10
RETRIES: Final = 2
RETRY_SECONDS: Final = 6
"""A store that is away is said within seconds; waiting is the supervisor's."""
BUFFER_BYTES: Final = 5 * 1024 * 1024
"""Larger objects go up in parts of this size."""
PROBE: Final = "_fairlead_probe"
_ONE_LINE: Final = "must be one line of printable characters (a line break at its end?)"
_ENDPOINTS: Final = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_IN_HEADERS: Final = ("AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_DEFAULT_REGION")
_STS: Final = "AWS_ENDPOINT_URL_STS"
_SECRET: Final = "AWS_SECRET_ACCESS_KEY"
SECRET_CHARS_MAX: Final = 16 * 1024


def storage_options(storage: Storage) -> dict[str, str]:
    """What delta-rs takes.  Raises ``Stop`` where a file of a secret cannot be read."""
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
    """In a sentence of ours. Where credentials were refused, the next request asks for new ones: the libraries keep
    those of a role until they end by their own account, whatever the store says of them."""
    found = store_errors.explain(path, error)
    if found.code == errors.STORE_DENIED:
        _kept.cache_clear()
    return found


def with_new_credentials(ask: Callable[P, T]) -> Callable[P, T]:
    """Asks a second time, with those that a role has by then, where the store says that ours have ended."""

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
    """A binary file to write to; the object is there when ``finish`` has returned, and not before.

    ``close`` ends nothing: a writer of Parquet closes its file also when it gives up in the middle.
    """

    closed = False

    def __init__(self, path: StorePath) -> None:
        self._path = path
        self._size = 0
        self._writer = obstore.open_writer(_store(path), path.key, buffer_size=BUFFER_BYTES)

    def write(self, data: bytes) -> int:
        """Raises ``Wait``, ``Stop``."""
        try:
            self._writer.write(data)
        except (BaseError, OSError) as error:
            raise explain(self._path, error) from error
        self._size += len(data)
        return len(data)

    def flush(self) -> None:
        """What is written goes on its way by itself."""

    def tell(self) -> int:
        return self._size

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        """See the class."""

    def finish(self) -> int:
        """Its bytes.  Raises ``Wait``, ``Stop``."""
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
    """The last ``size`` bytes, or all where it has no more, and how many it has.  Raises ``Wait``, ``Stop``."""
    try:
        answer = obstore.get(_store(path), path.key, options={"range": {"suffix": size}})
        return bytes(answer.bytes()), answer.meta["size"]
    except (BaseError, OSError) as error:
        raise explain(path, error) from error


@with_new_credentials
def read_range(path: StorePath, begin: int, end: int) -> bytes:
    """From byte ``begin`` until before ``end``.  Raises ``Wait``, ``Stop``."""
    try:
        return bytes(obstore.get_range(_store(path), path.key, start=begin, end=end))
    except (BaseError, OSError) as error:
        raise explain(path, error) from error


@with_new_credentials
def found(path: StorePath) -> bytes | None:
    """The whole object, None where there is none.  Raises ``Wait``, ``Stop``."""
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
    """Bytes of each object below ``path``, by its name relative to it.  Raises ``Wait``, ``Stop``."""
    return {each["path"].removeprefix(f"{path.key}/"): each["size"] for each in _objects(path)}


@with_new_credentials
def delete_below(path: StorePath, names: Collection[str]) -> None:
    """Objects below ``path``; one that is not there is well.  Raises ``Wait``, ``Stop``."""
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
    """The whole object, there when this returns.  Raises ``Wait``, ``Stop``."""
    try:
        obstore.put(_store(path), path.key, content)
    except (BaseError, OSError) as error:
        raise explain(path, error) from error


@with_new_credentials
def delete(path: StorePath) -> None:
    """Also where it is gone already.  Raises ``Wait``, ``Stop``."""
    try:
        obstore.delete(_store(path), path.key)
    except FileNotFoundError:
        return
    except (BaseError, OSError) as error:
        raise explain(path, error) from error


def below(path: StorePath) -> Iterator[tuple[str, float]]:
    """(path relative to this one, seconds since 1970) of every object under it.  Raises ``Wait``, ``Stop``."""
    for each in _objects(path):
        yield each["path"].removeprefix(f"{path.key}/"), each["last_modified"].timestamp()


def _objects(path: StorePath) -> Iterator[obstore.ObjectMeta]:
    """Page by page; a list that is longer than a session goes on with new credentials behind what it had."""
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
    """Raises ``Stop`` where the store cannot be used as it is, ``Wait`` where it cannot be asked now."""
    store = _store(path)
    key = f"{path.key}/{PROBE}-{uuid.uuid4().hex}"
    try:
        obstore.put(store, key, b"one", mode="create")
        try:
            obstore.put(store, key, b"two", mode="create")
        except AlreadyExistsError:
            return
        finally:
            with contextlib.suppress(BaseError, OSError):  # an object of three letters, at worst
                obstore.delete(store, key)
    except (BaseError, OSError) as error:
        raise explain(path, error) from error
    raise errors.Stop(
        errors.STORE_UNFIT,
        f"{path}: this store takes a conditional put of an object that is there, so two jobs could commit the same"
        " version of a table; use one that knows If-None-Match (AWS, MinIO, versitygw 1.8 and newer, Ceph)",
    )


def _options(storage: Storage) -> dict[str, str]:
    """Raises ``Stop`` for what the libraries would panic about, or take for a store that is away."""
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
        # The default of today; said all the same, for our promises rest on it.
        "aws_conditional_put": "etag",
    }
    return {key: value for key, value in found.items() if value is not None}


def _check_environment(storage: Storage) -> None:
    """What our settings do not say, the libraries take from there.  A value is not shown: it may be a secret."""
    for name in (*_IN_HEADERS, _SECRET):
        value = os.environ.get(name, "")
        if value and not (value.isprintable() if name == _SECRET else store_path.is_header(value)):
            raise errors.Stop(errors.BAD_OPTION, f"{name} in the environment: {_ONE_LINE}")
    sts = os.environ.get(_STS, "")
    if os.environ.get("AWS_WEB_IDENTITY_TOKEN_FILE") and sts and not sts.startswith("https://"):
        raise errors.Stop(errors.BAD_OPTION, f"{_STS} in the environment: must be https://…, also on this machine")
    for name in () if storage.endpoint_url else _ENDPOINTS:
        if address := os.environ.get(name):
            try:
                store_path.check_endpoint(address)
            except ValueError as error:
                raise errors.Stop(errors.BAD_OPTION, f"{name} in the environment: {error}") from None


def _is_plain(storage: Storage) -> bool:
    """Without TLS: to this machine alone, as is checked."""
    named = (storage.endpoint_url, *(os.environ.get(name) for name in _ENDPOINTS))
    return next((each for each in named if each), "").startswith("http:")


def _secret(key: str, file: str | None) -> str | None:
    if file is None:
        return None
    try:
        with Path(file).open() as opened:
            text = opened.read(SECRET_CHARS_MAX).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise errors.Stop(errors.BAD_OPTION, f"[storage] {key} {file}: {error}") from None
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
    """Raises ``Stop``."""
    options = _options(path.storage)
    try:
        return _kept(path.bucket, tuple(sorted(options.items())), _is_plain(path.storage))
    except (BaseError, OSError, ValueError) as error:
        raise errors.Stop(errors.BAD_OPTION, f"{path}: {sentence(error)}; {TOGETHER}") from None
