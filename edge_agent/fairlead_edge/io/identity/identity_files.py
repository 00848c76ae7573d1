"""The files of the node's identity.  A process or machine that ends at any moment leaves the old pair or the new one.

<data_dir>/identity/node-<serial>.pem   key, certificate and chain in one file, 0600: never one without the other
<data_dir>/identity/node.pem            a link to the one in use
<data_dir>/identity/authorities.pem     whom the node trusts: the authorities of the hub's certificate
<data_dir>/identity/issuers.pem         the authorities of nodes' certificates, for programs that connect to the agent
<data_dir>/identity/pending.pem         a key that waits for its certificate, and its request

    add(key, chain)   a new pair is written and flushed; the one in use stays
    use(pair)         the link is swapped; the old pair stays beside it
    confirm()         a session was opened with the pair in use: the others are removed

A link by another name, or files elsewhere, belong to other programs: nothing here writes to them.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import os
import re
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from fairlead_wire.errors import FairleadError
from fairlead_wire.identity import authority_bundle, certificate
from fairlead_wire.identity.certificate import Certificate

FOLDER: Final = "identity"
LINK: Final = "node.pem"
AUTHORITIES: Final = "authorities.pem"
ISSUERS: Final = "issuers.pem"
PENDING: Final = "pending.pem"
FOLDER_MODE: Final = 0o700
PRIVATE_MODE: Final = 0o600
READABLE_MODE: Final = 0o644
FILE_BYTES_MAX: Final = 256 * 1024
RESERVED: Final = "reserved"
RESERVED_BYTES: Final = 256 * 1024
"""Kept free on the disk while a hub is asked for a certificate; a usual identity takes 8 KiB."""
DRAFT_PREFIX: Final = "."
DRAFT_SUFFIX: Final = ".new"

_PAIR: Final = re.compile(r"node-[0-9a-f]{1,40}\.pem")
_KEY: Final = re.compile(rb"-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----.+?-----END (?:[A-Z]+ )?PRIVATE KEY-----\n?", re.S)
_REQUEST: Final = re.compile(rb"-----BEGIN CERTIFICATE REQUEST-----(.+?)-----END CERTIFICATE REQUEST-----", re.S)
_PURPOSE: Final = re.compile(rb"# ([^\n]*)\n")
_CERTIFICATE: Final = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----\n?", re.S)


class IdentityFilesError(FairleadError):
    """A file of the identity cannot be read or written; the text names it.  What was in use is still in use."""


class BadPair(IdentityFilesError):
    """These are no key and certificate that belong to each other; nothing was changed."""


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """One file with a key and the certificate of that key."""

    path: Path
    certificate: Certificate


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """A key (PEM) and its certificate request (DER), kept until the certificate is in use.

    ``purpose``: one line that says what they were made for; for another purpose another key is made.
    """

    key: bytes
    request: bytes
    purpose: str = ""

    def __repr__(self) -> str:
        return "Pending(…)"  # a key must not get into a log by accident


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """The user and group for which files are written, where that is not the one who writes."""

    user: int
    group: int


class IdentityFiles:
    """All methods act at once and raise ``IdentityFilesError``; one process writes at a time.

    ``owner``: files are given to this user, which only root can do.
    """

    def __init__(self, folder: Path, *, owner: Owner | None = None) -> None:
        self.folder = folder
        self.link = folder / LINK
        """What ``tls_cert`` and ``tls_key`` name."""
        self.authorities = folder / AUTHORITIES
        """What ``tls_ca`` names."""
        self.issuers = folder / ISSUERS
        """What programs that connect to the agent verify it by."""
        self._pending = folder / PENDING
        self._owner = owner
        self._writing = threading.Lock()
        """A renewal and what the hub said may be written at once; and drafts are removed."""

    @classmethod
    def of(cls, data_dir: Path, *, owner: Owner | None = None) -> IdentityFiles:
        """Those of an agent."""
        return cls(data_dir / FOLDER, owner=owner)

    # ---- reading ---------------------------------------------------------------------------------

    def current(self) -> Pair | None:
        """The pair in use; None when there is none.  Raises ``IdentityFilesError`` when it cannot be read."""
        try:
            target = os.readlink(self.link)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise IdentityFilesError(
                f"{self.link}: is no link to a pair of key and certificate: {_why(error)}"
            ) from None
        if not _PAIR.fullmatch(target):
            raise IdentityFilesError(f"{self.link}: leads to {target[:80]}, which is none of this folder's pairs")
        return self.pair(self.folder / target)

    def others(self) -> list[Pair]:
        """Usable pairs that are not in use, the newest first."""
        current = self._target()
        return [pair for pair in self.pairs() if pair.path.name != current]

    def pairs(self) -> list[Pair]:
        """All usable pairs, the newest first."""
        found = []
        for path in self._paths():
            with contextlib.suppress(IdentityFilesError):
                found.append(self.pair(path))
        return sorted(found, key=lambda each: each.certificate.not_before, reverse=True)

    def pair(self, path: Path) -> Pair:
        """What the file says of itself."""
        try:
            return Pair(path=path, certificate=certificate.read(self._read(path)))
        except ValueError as error:
            raise IdentityFilesError(f"{path}: {error}") from None

    def key(self, pair: Pair) -> bytes:
        """The private key (PEM) of a pair: to sign with, for the key maker alone."""
        found = _KEY.search(self._read(pair.path))
        if found is None:
            raise IdentityFilesError(f"{pair.path}: holds no private key")
        return found[0]

    def chain(self, pair: Pair) -> bytes:
        """The certificates (PEM) of a pair, its own first."""
        return b"".join(_CERTIFICATE.findall(self._read(pair.path)))

    def pending(self) -> Pending | None:
        """What was kept; None when nothing was, or when it cannot be used (then a new one is made)."""
        try:
            content = self._read(self._pending)
        except IdentityFilesError:
            return None
        key, request = _KEY.search(content), _REQUEST.search(content)
        if key is None or request is None:
            return None
        said = _PURPOSE.match(content)
        try:
            der = base64.b64decode(b"".join(request[1].split()), validate=True)
            return Pending(key=key[0], request=der, purpose=said[1].decode() if said else "")
        except ValueError:
            return None

    # ---- writing ---------------------------------------------------------------------------------

    def make_folder(self) -> None:
        """Where it is not there yet; given to the owner."""
        try:
            if not self.folder.is_dir():
                self.folder.mkdir(mode=FOLDER_MODE)
                self._flush(self.folder.parent)
            if self._owner is not None:
                give_folder(self.folder, self._owner)
        except OSError as error:
            raise IdentityFilesError(f"{self.folder}: {_why(error)}") from None

    @contextlib.contextmanager
    def reserved(self) -> Iterator[None]:
        """Keep room on the disk while the block runs, so that what the hub issues can be written after it.

        Raises ``IdentityFilesError`` where there is no room, or a file of the identity cannot be written.
        """
        path = self._draft(self.folder / RESERVED)
        for target in (self.link, self.authorities, self.issuers, self._pending):
            if target.is_dir() and not target.is_symlink():
                raise IdentityFilesError(f"{target}: is a folder; move it away")
        try:
            with self._sentence(self.folder):
                path.unlink(missing_ok=True)
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
                with os.fdopen(os.open(path, flags, PRIVATE_MODE), "wb") as file:
                    os.posix_fallocate(file.fileno(), 0, RESERVED_BYTES)
            yield
        finally:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)

    def keep_pending(self, pending: Pending) -> None:
        """So that the same request can be made again when its answer got lost."""
        body = base64.encodebytes(pending.request)
        request = b"-----BEGIN CERTIFICATE REQUEST-----\n%b-----END CERTIFICATE REQUEST-----\n" % body
        purpose = f"# {' '.join(pending.purpose.split())}\n".encode()
        self._write(self._pending, purpose + pending.key + request, PRIVATE_MODE)

    def drop_pending(self) -> None:
        """It has its certificate, or is wanted no more."""
        with self._sentence(self._pending):
            self._pending.unlink(missing_ok=True)

    def write_authorities(self, content: bytes) -> None:
        """Whole or not at all.  Raises ``BadPair`` when one of them cannot be read, or there are none."""
        self._write_bundle(self.authorities, content)

    def write_issuers(self, content: bytes) -> bool:
        """Whole or not at all; True: they replaced others.  Raises ``BadPair`` when one of them cannot be read."""
        try:
            before = self._read(self.issuers)
        except IdentityFilesError:
            before = b""
        if before != content:
            self._write_bundle(self.issuers, content)
        return before not in (b"", content)

    def add(self, key: bytes, chain: bytes) -> Pair:
        """Write a new pair (PEM each) beside the one in use.  Raises ``BadPair`` when they do not fit together.

        The same pair may be added again.
        """
        try:
            serial = certificate.read(chain).serial
        except ValueError as error:
            raise BadPair(f"the certificate that was issued cannot be read: {error}") from None
        path = self.folder / f"node-{serial}.pem"
        self._write(path, key.rstrip(b"\n") + b"\n" + chain, PRIVATE_MODE, is_pair=True)
        return self.pair(path)

    def use(self, pair: Pair) -> None:
        """From now on this pair counts, for the next connection and the next start."""
        draft = self._draft(self.link)
        with self._sentence(pair.path):
            pair.path.stat()  # a link that leads nowhere would lock the node out
        with self._sentence(self.link):
            draft.unlink(missing_ok=True)
            os.symlink(pair.path.name, draft)
            if self._owner is not None:
                os.chown(draft, self._owner.user, self._owner.group, follow_symlinks=False)
            os.replace(draft, self.link)
            self._flush(self.folder)

    def confirm(self) -> None:
        """A session was opened with the pair in use: the others, and what was left half-written, are removed."""
        current = self._target()
        if current is None or not (self.folder / current).exists():
            return
        with self._writing, self._sentence(self.folder):
            for path in [*self._paths(), *self.folder.glob(f"{DRAFT_PREFIX}*{DRAFT_SUFFIX}")]:
                if path.name != current:
                    path.unlink(missing_ok=True)
            self._flush(self.folder)

    # ---- the disk --------------------------------------------------------------------------------

    def _target(self) -> str | None:
        try:
            return os.readlink(self.link)
        except OSError:
            return None

    def _paths(self) -> list[Path]:
        try:
            return sorted(path for path in self.folder.iterdir() if _PAIR.fullmatch(path.name))
        except OSError:
            return []

    def _read(self, path: Path) -> bytes:
        with self._sentence(path), path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
        if len(content) > FILE_BYTES_MAX:
            raise IdentityFilesError(f"{path}: is larger than {FILE_BYTES_MAX} bytes")
        return content

    def _write(self, path: Path, content: bytes, mode: int, *, is_pair: bool = False) -> None:
        if len(content) > FILE_BYTES_MAX:
            raise BadPair(f"{path}: would be larger than {FILE_BYTES_MAX} bytes")
        draft = self._draft(path)
        with self._writing, self._sentence(path):
            draft.unlink(missing_ok=True)
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode), "wb") as file:
                os.fchmod(file.fileno(), mode)  # also under an umask that takes more away
                if self._owner is not None:
                    os.fchown(file.fileno(), self._owner.user, self._owner.group)
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            if is_pair:
                self._check(draft)
            os.replace(draft, path)
            self._flush(self.folder)

    def _write_bundle(self, path: Path, content: bytes) -> None:
        try:
            authority_bundle.certificates(content)
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=content.decode("ascii"))
        except (ssl.SSLError, ValueError) as error:
            raise BadPair(f"the authorities cannot be read: {error}") from None
        self._write(path, content, READABLE_MODE)

    def _check(self, draft: Path) -> None:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(str(draft), password=_no_password)
        except (ssl.SSLError, ValueError) as error:
            draft.unlink(missing_ok=True)
            raise BadPair(f"the certificate that was issued is not one of our key: {error}") from None

    def _draft(self, path: Path) -> Path:
        return path.with_name(f"{DRAFT_PREFIX}{path.name}{DRAFT_SUFFIX}")

    def _flush(self, folder: Path) -> None:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)

    @contextlib.contextmanager
    def _sentence(self, path: Path) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise IdentityFilesError(f"{path}: {_why(error)}") from None


def give_folder(folder: Path, owner: Owner) -> None:
    """Never where a link leads: what lies above may be another user's, who would be given any folder of the machine.

    Raises ``OSError``.
    """
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        os.fchown(opened, owner.user, owner.group)
    finally:
        os.close(opened)


def _why(error: OSError) -> str:
    why = error.strerror or str(error)
    return f"{why}; free some room on this disk" if error.errno in (errno.ENOSPC, errno.EDQUOT) else why


def _no_password() -> str:
    """OpenSSL would ask at the terminal, and an agent has none."""
    raise ValueError("it is encrypted, and an agent has no password for it")
