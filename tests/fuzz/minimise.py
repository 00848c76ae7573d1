"""Minimises an input that shows a finding: pieces are removed, large ones first, then bytes are simplified."""

from __future__ import annotations

from collections.abc import Callable

TRIES_MAX = 4000


def minimise(content: bytes, does_the_same: Callable[[bytes], bool], tries_max: int = TRIES_MAX) -> bytes:
    """The shortest input found within ``tries_max`` tries; ``content`` itself shows the finding."""
    tries = 0

    def still(shorter: bytes) -> bool:
        nonlocal tries
        tries += 1
        return does_the_same(shorter)

    size = max(1, len(content) // 2)
    while size and tries < tries_max:
        at, shorter_found = 0, False
        while at < len(content) and tries < tries_max:
            shorter = content[:at] + content[at + size :]
            if still(shorter):
                content, shorter_found = shorter, True
            else:
                at += size
        if not shorter_found or size > 1:
            size = 0 if size == 1 and not shorter_found else max(size // 2, 1) if size > 1 else 1
    for at in range(len(content)):
        if tries >= tries_max:
            break
        for plain in b"a0 ":
            if (
                content[at] != plain
                and content[at] not in b"a0 "
                and still(content[:at] + bytes((plain,)) + content[at + 1 :])
            ):
                content = content[:at] + bytes((plain,)) + content[at + 1 :]
                break
    return content
