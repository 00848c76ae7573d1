"""The files of the node's identity.  A crash or power cut at any moment leaves either the old pair or the new one.

<data_dir>/identity/node-<serial>.pem   key, certificate and chain in one file, 0600: never one without the other
<data_dir>/identity/node.pem            a link to the pair in use
<data_dir>/identity/authorities.pem     the authorities of the hub's certificate, which the node trusts
<data_dir>/identity/issuers.pem         the authorities of nodes' certificates, for programs that connect to the agent
<data_dir>/identity/pending.pem         a key that waits for its certificate, and its request

    add(key, chain)   writes and flushes a new pair; the one in use stays
    use(pair)         swaps the link; the old pair stays
    confirm()         removes the other pairs, after a session was opened with the pair in use

Links of other names, and files elsewhere, belong to other programs: nothing here writes to them.
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

from fairlead_edge.io import durable_file
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
"""Kept free on the disk while a certificate is requested; a typical identity takes 8 KiB."""

_PAIR: Final = re.compile(r"node-[0-9a-f]{1,40}\.pem")
_KEY: Final = re.compile(rb"-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----.+?-----END (?:[A-Z]+ )?PRIVATE KEY-----\n?", re.S)
_REQUEST: Final = re.compile(rb"-----BEGIN CERTIFICATE REQUEST-----(.+?)-----END CERTIFICATE REQUEST-----", re.S)
_PURPOSE: Final = re.compile(rb"# ([^\n]*)\n")
_CERTIFICATE: Final = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----\n?", re.S)


class IdentityFilesError(FairleadError):
    """A file of the identity, named in the text, cannot be read or written.  The pair in use is still in use."""


class BadPair(IdentityFilesError):
    """Key and certificate do not match; nothing was changed."""


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """A file with a key and its certificate."""

    path: Path
    certificate: Certificate


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """A key (PEM) and its certificate request (DER), kept until the certificate is in use.

    ``purpose``: one line that says what the key was made for; another purpose needs another key.
    """

    key: bytes
    request: bytes
    purpose: str = ""

    def __repr__(self) -> str:
        return "Pending(…)"  # a key must not get into a log by accident


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """The user and group that own the files, if not those of the current process."""

    user: int
    group: int


class IdentityFiles:
    """The identity of one node.  Methods block for the disk and raise ``IdentityFilesError``; one process may write.

    ``owner``: files are given to this user, which only root can do.
    """

    def __init__(self, folder: Path, *, owner: Owner | None = None) -> None:
        self.folder = folder
        self.link = folder / LINK
        """The path for ``tls_cert`` and ``tls_key``."""
        self.authorities = folder / AUTHORITIES
        """The path for ``tls_ca``."""
        self.issuers = folder / ISSUERS
        """The authorities by which programs that connect to the agent verify it."""
        self._pending = folder / PENDING
        self._owner = owner
        self._writing = threading.Lock()
        """A renewal and new authorities may be written at the same time, and ``confirm`` removes drafts."""

    @classmethod
    def of(cls, data_dir: Path, *, owner: Owner | None = None) -> IdentityFiles:
        """The identity files of an agent."""
        return cls(data_dir / FOLDER, owner=owner)

    # ---- reading ---------------------------------------------------------------------------------

    def current(self) -> Pair | None:
        """The pair in use; None if there is none.  Raises ``IdentityFilesError`` if it cannot be read."""
        try:
            target = os.readlink(self.link)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise IdentityFilesError(
                f"{self.link}: is not a link to a pair of key and certificate: {_why(error)}"
            ) from None
        if not _PAIR.fullmatch(target):
            raise IdentityFilesError(f"{self.link}: points to {target[:80]}, which is not a pair of this folder")
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
        """The pair in this file."""
        try:
            return Pair(path=path, certificate=certificate.read(self._read(path)))
        except ValueError as error:
            raise IdentityFilesError(f"{path}: {error}") from None

    def key(self, pair: Pair) -> bytes:
        """The private key (PEM) of a pair, only for the key maker to sign with."""
        found = _KEY.search(self._read(pair.path))
        if found is None:
            raise IdentityFilesError(f"{pair.path}: holds no private key")
        return found[0]

    def chain(self, pair: Pair) -> bytes:
        """The certificates (PEM) of a pair, its own first."""
        return b"".join(_CERTIFICATE.findall(self._read(pair.path)))

    def pending(self) -> Pending | None:
        """The pending key; None if there is none or it is unusable (then a new one is made)."""
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
        """Create the folder if it is missing, and give it to the owner."""
        try:
            if not self.folder.is_dir():
                self.folder.mkdir(mode=FOLDER_MODE)
                durable_file.flush(self.folder.parent)
            if self._owner is not None:
                give_folder(self.folder, self._owner)
        except OSError as error:
            raise IdentityFilesError(f"{self.folder}: {_why(error)}") from None

    @contextlib.contextmanager
    def reserved(self) -> Iterator[None]:
        """Reserve room on the disk while the block runs, so that the issued certificate can be written afterwards.

        Raises ``IdentityFilesError`` if there is no room, or a file of the identity cannot be written.
        """
        path = durable_file.draft_of(self.folder / RESERVED)
        for target in (self.link, self.authorities, self.issuers, self._pending):
            if target.is_dir() and not target.is_symlink():
                raise IdentityFilesError(f"{target}: is a folder; move it away")
        try:
            with self._sentence(self.folder):
                path.unlink(missing_ok=True)
                with os.fdopen(os.open(path, durable_file.NEW_FILE, PRIVATE_MODE), "wb") as file:
                    os.posix_fallocate(file.fileno(), 0, RESERVED_BYTES)
            yield
        finally:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)

    def keep_pending(self, pending: Pending) -> None:
        """Store key and request, so that the same request can be repeated if its answer is lost."""
        body = base64.encodebytes(pending.request)
        request = b"-----BEGIN CERTIFICATE REQUEST-----\n%b-----END CERTIFICATE REQUEST-----\n" % body
        purpose = f"# {' '.join(pending.purpose.split())}\n".encode()
        self._write(self._pending, purpose + pending.key + request, PRIVATE_MODE)

    def drop_pending(self) -> None:
        """Delete the pending key, because it has its certificate or is no longer wanted."""
        with self._sentence(self._pending):
            self._pending.unlink(missing_ok=True)

    def write_authorities(self, content: bytes) -> None:
        """Atomically replace the authorities.  Raises ``BadPair`` if one cannot be read, or there are none."""
        self._write_bundle(self.authorities, content)

    def write_issuers(self, content: bytes) -> bool:
        """Atomically replace the issuers; True if others were replaced.  Raises ``BadPair`` if one cannot be read."""
        try:
            before = self._read(self.issuers)
        except IdentityFilesError:
            before = b""
        if before != content:
            self._write_bundle(self.issuers, content)
        return before not in (b"", content)

    def add(self, key: bytes, chain: bytes) -> Pair:
        """Write a new pair (PEM each) beside the one in use.  Raises ``BadPair`` if they do not match.

        The same pair may be added again.
        """
        try:
            serial = certificate.read(chain).serial
        except ValueError as error:
            raise BadPair(f"the issued certificate cannot be read: {error}") from None
        path = self.folder / f"node-{serial}.pem"
        self._write(path, key.rstrip(b"\n") + b"\n" + chain, PRIVATE_MODE, is_pair=True)
        return self.pair(path)

    def use(self, pair: Pair) -> None:
        """Use this pair from the next connection or start on."""
        draft = durable_file.draft_of(self.link)
        with self._sentence(pair.path):
            pair.path.stat()  # a dangling link would lock the node out
        with self._sentence(self.link):
            draft.unlink(missing_ok=True)
            os.symlink(pair.path.name, draft)
            if self._owner is not None:
                os.chown(draft, self._owner.user, self._owner.group, follow_symlinks=False)
            os.replace(draft, self.link)
            durable_file.flush(self.folder)

    def confirm(self) -> None:
        """Remove all other pairs and drafts, after a session was opened with the pair in use."""
        current = self._target()
        if current is None or not (self.folder / current).exists():
            return
        with self._writing, self._sentence(self.folder):
            for path in [*self._paths(), *self.folder.glob(".*.new")]:
                if path.name != current:
                    path.unlink(missing_ok=True)
            durable_file.flush(self.folder)

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
        owner = None if self._owner is None else (self._owner.user, self._owner.group)
        with self._writing, self._sentence(path):
            durable_file.replace(path, content, mode=mode, owner=owner, check=_check_pair if is_pair else None)

    def _write_bundle(self, path: Path, content: bytes) -> None:
        try:
            authority_bundle.certificates(content)
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=content.decode("ascii"))
        except (ssl.SSLError, ValueError) as error:
            raise BadPair(f"the authorities cannot be read: {error}") from None
        self._write(path, content, READABLE_MODE)

    @contextlib.contextmanager
    def _sentence(self, path: Path) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise IdentityFilesError(f"{path}: {_why(error)}") from None


def give_folder(folder: Path, owner: Owner) -> None:
    """Give ``folder`` to ``owner``.  Raises ``OSError``, also for a symbolic link.

    Links are not followed: if another user may write to the parent folder, they could be given any folder.
    """
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        os.fchown(opened, owner.user, owner.group)
    finally:
        os.close(opened)


def _why(error: OSError) -> str:
    why = error.strerror or str(error)
    return f"{why}; free some room on this disk" if error.errno in (errno.ENOSPC, errno.EDQUOT) else why


def _check_pair(file: Path) -> None:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(str(file), password=_no_password)
    except (ssl.SSLError, ValueError) as error:
        raise BadPair(f"the issued certificate does not match our key: {error}") from None


def _no_password() -> str:
    """Refuse encrypted keys; OpenSSL would ask for a password at the terminal."""
    raise ValueError("the key is encrypted, and an agent has no password for it")
