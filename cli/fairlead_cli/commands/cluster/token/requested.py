"""Whom tokens shall admit and which hub they lead to, as a person wrote it.  Mistakes are wrong use: exit code 2."""

from __future__ import annotations

import re
from pathlib import Path
from typing import BinaryIO

import click

from fairlead_cli.text import printable
from fairlead_wire.identity import authority_bundle, join_token, node_names
from fairlead_wire.validation import mistakes

NAMES_MAX = 10_000
NAMES_BYTES_MAX = 4 * 1024 * 1024
_PATTERN = re.compile(r"[-a-z0-9.]{0,252}\*")


def admitted(node: str | None, pattern: str | None) -> str:
    if pattern is not None:
        if not _PATTERN.fullmatch(pattern):
            raise click.UsageError(
                f"--pattern: {pattern!r} is none; write the beginning of the names, then *: 'shop-*'"
            )
        return pattern
    if node is None or not node_names.is_node_name(node):
        raise click.UsageError(f"{node!r} cannot be the name of a Node: lower-case letters, digits, - and .")
    return node


def names(file: BinaryIO) -> list[str]:
    """All mistakes are found before the first token is made."""
    place = getattr(file, "name", "<stdin>")
    try:
        text = file.read(NAMES_BYTES_MAX + 1).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        raise click.UsageError(f"{place}: cannot be read as text in UTF-8; write names, one a line") from None
    lines = [(at, line.partition("#")[0].strip()) for at, line in enumerate(text.splitlines(), 1)]
    found: dict[str, int] = {}
    for at, name in lines:
        if not name:
            continue
        if not node_names.is_node_name(name):
            raise click.UsageError(f"{place}:{at}: {printable.one_line(name[:80])!r} cannot be the name of a Node")
        if name in found:
            raise click.UsageError(f"{place}:{at}: {name} is there twice, first in line {found[name]}")
        found[name] = at
    if not found:
        raise click.UsageError(f"{place}: holds no names; write one a line")
    if len(found) > NAMES_MAX or len(text) > NAMES_BYTES_MAX:
        raise click.UsageError(f"{place}: more than {NAMES_MAX:,} names; split the file")
    return list(found)


def url(text: str) -> str:
    if not re.fullmatch(r"wss://[^\s/@]+:[0-9]{1,5}/?", text):
        raise click.UsageError(
            f"--hub: {mistakes.shown(text)} is no URL of a hub; one is like wss://hub.example.com:10000"
        )
    return text


def pins_of(file: Path) -> tuple[str, ...]:
    try:
        found = tuple(authority_bundle.by_pin(file.read_bytes()))
    except (OSError, ValueError) as error:
        raise click.UsageError(f"--ca-file {file}: {error}") from None
    if len(found) > join_token.PINS_MAX:
        raise click.UsageError(
            f"--ca-file {file}: names {len(found)} authorities; a token has room for {join_token.PINS_MAX}"
        )
    return found
