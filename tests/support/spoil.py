"""Damages files as a failing disk does, by seed: flipped bytes, garbled, zeroed or swapped pages, truncated ends."""

from __future__ import annotations

from pathlib import Path
from random import Random

PAGE = 4096


def spoil(path: Path, random: Random) -> str:
    """Damage one file that is not empty; returns a description."""
    content = bytearray(path.read_bytes())
    if not content:
        return f"{path.name}: empty"
    size = len(content)
    page = random.randrange((size + PAGE - 1) // PAGE) * PAGE
    end = min(size, page + PAGE)
    match random.choice(("byte", "byte", "bytes", "page", "zeros", "swap", "cut", "head")):
        case "byte":
            at = random.randrange(size)
            content[at] ^= 1 << random.randrange(8)
            done = f"bit of {at} flipped"
        case "bytes":
            found = [random.randrange(size) for _ in range(random.choice((5, 40, 200)))]
            for at in found:
                content[at] = random.randrange(256)
            done = f"{len(found)} bytes anywhere"
        case "page":
            content[page:end] = random.randbytes(end - page)
            done = f"page at {page} garbled"
        case "zeros":
            until = min(size, page + PAGE * random.choice((1, 4, 16)))
            content[page:until] = bytes(until - page)
            done = f"{page} to {until} zeroed"
        case "swap":
            other = random.randrange((size + PAGE - 1) // PAGE) * PAGE
            content[page:end] = content[other : other + end - page].ljust(end - page, b"\0")
            done = f"page at {page} is that at {other}"
        case "cut":
            cut = random.randrange(size)
            del content[cut:]
            done = f"cut to {cut} of {size}"
        case _:
            at = random.randrange(min(size, 2 * PAGE))
            content[at] = random.randrange(256)
            done = f"byte {at} changed"
    path.write_bytes(content)
    return f"{path.name}: {done}"


HEAD_BITS = tuple((at, bit) for at in (18, 19, 44, 47, 60, 61, 63) for bit in (0, 1, 3, 7))
"""Of SQLite's head: its formats, and the version of ours."""


def flip(path: Path, at: int, bit: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1 << bit
    path.write_bytes(content)
