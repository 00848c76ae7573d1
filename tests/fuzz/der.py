"""DER as a tree whose elements can be changed: lengths are computed again when it is written."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

CONSTRUCTED = 0x20
DEPTH_MAX = 40
TAGS = (1, 2, 3, 4, 5, 6, 0x0C, 0x13, 0x16, 0x17, 0x18, 0x30, 0x31, 0x80, 0x82, 0x86, 0x87, 0xA0, 0xA3)


@dataclass
class Element:
    """``inner`` is empty if there are no elements inside; then ``content`` is used."""

    tag: int
    content: bytes = b""
    inner: list[Element] = field(default_factory=list)


def parse(content: bytes, depth: int = 0) -> Element | None:
    """The element in ``content``; None if it is not one."""
    found = _elements(content, depth)
    return found[0] if found is not None and len(found) == 1 else None


def encode(element: Element) -> bytes:
    """Encode with correct lengths, in their shortest form."""
    content = b"".join(map(encode, element.inner)) if element.inner else element.content
    if len(content) < 0x80:
        length = bytes((len(content),))
    else:
        size = (len(content).bit_length() + 7) // 8
        length = bytes((0x80 | size,)) + len(content).to_bytes(size, "big")
    return bytes((element.tag,)) + length + content


def mutate(chance: random.Random, tree: Element, other: Element | None, change: Callable[[bytes], bytes]) -> Element:
    """A changed tree, perhaps with a part of ``other``; both may be modified."""
    places = _places(tree)
    if not places:
        return Element(chance.choice(TAGS), change(tree.content), tree.inner)
    holder, at = chance.choice(places)
    element = holder.inner[at]
    match chance.randrange(7):
        case 0:
            del holder.inner[at]
        case 1:
            holder.inner[at:at] = [element] * chance.choice((1, 2, 100))
        case 2:
            element.tag = chance.choice(TAGS)
        case 3 if other is not None:
            donor = _places(other)
            if donor:
                where, there = chance.choice(donor)
                holder.inner[at] = where.inner[there]
        case 4:
            holder.inner[at] = _wrapped(element, chance.choice((1, 2, 30)))
        case _:
            element.content, element.inner = change(encode(Element(4, inner=element.inner))[2:] or element.content), []
    return tree


def _wrapped(element: Element, times: int) -> Element:
    """Nested in this many sequences."""
    for _ in range(times):
        element = Element(0x30, inner=[element])
    return element


def _places(tree: Element) -> list[tuple[Element, int]]:
    found, stack = [], [tree]
    while stack:
        each = stack.pop()
        found += [(each, at) for at in range(len(each.inner))]
        stack += each.inner
    return found


def _elements(content: bytes, depth: int) -> list[Element] | None:
    found, at = [], 0
    while at < len(content):
        if depth > DEPTH_MAX or at + 2 > len(content):
            return None
        tag, length, at = content[at], content[at + 1], at + 2
        if length & 0x80:
            size = length & 0x7F
            if not 1 <= size <= 4:
                return None
            length, at = int.from_bytes(content[at : at + size], "big"), at + size
        value, at = content[at : at + length], at + length
        if len(value) != length:
            return None
        # An octet string often holds DER itself (extensions); what only looks like it is written back the same.
        inner = _elements(value, depth + 1) if tag & CONSTRUCTED or tag == 0x04 else None
        found.append(Element(tag, value, inner or []))
    return found
