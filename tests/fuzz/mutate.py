"""Creates inputs from other inputs: a part is changed, removed, duplicated, moved, or taken from another input.

Well-formed input is parsed first (JSON, DER, a frame of the link), so that a change gets past the outermost brackets;
now
and then bytes are changed blindly.  All randomness comes from the given ``random.Random``.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import zstandard
from tests.fuzz import der
from tests.fuzz.target import INPUT_BYTES_MAX, Shape

from fairlead_wire.errors import RemoteError
from fairlead_wire.link import codec

INTERESTING: Final[tuple[Any, ...]] = (
    None, True, False, 0, -1, 1, 2, 5, 127, 128, 255, 256, 2**31 - 1, 2**31, 2**32, 2**53, 2**53 + 1, 2**63 - 1, 2**63,
    -(2**63), -(2**63) - 1, 2**64, 10**30, 0.5, -0.0, 1e300, 1e-300, 1e308, "", " ", "a", "0", "-1", "a/b", "../a",
    "%2e", "\x00", "\n", "\u2028", "\ufeff", "é", "😀", "a" * 257, "a" * 1025, "1" * 40, "null", "true", "a.b", "A",
    "aa==",
    "2026-11-22T10:00:00Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00+23:59", [], {}, [[]], {"": ""}, [None],
    {"a": None},
)  # fmt: skip
TEXTS: Final = (
    b"", b" ", b"\t", b"\n", b"\r\n", b"\x00", b"\x7f", b"\x80", b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xef\xbb\xbf",
    b"\xe2\x80\xa8", b"\xf0\x9f\x98\x80", "ſKİ".encode(), "٣".encode(), b"0", b"-1", b"1e400", b"NaN", b"%00", b"+",
    b"=", b"&", b",", b";", b":", b"/", b"//", b"../", b"'", b'"', b"\\", b"\\u0000", b"\\ud800", b"(", b")", b"[",
    b"]", b"{", b"}", b"<", b">", b"*", b"?", b"#", b"$", b"!", b"|", b"9" * 30,
)  # fmt: skip
_TOKENS: Final = re.compile(rb"[A-Za-z0-9_]+|\s+|.", re.DOTALL)
REPEATS: Final = (2, 3, 10, 100, 1000, 5000)
SHORT_BYTES_MAX: Final = 4096
"""Most inputs stay below: more of them are tried, and what breaks a parser is seldom long."""
STEPS_MAX: Final = 4
"""Changes of one input; more of them seldom leave anything that is understood."""


class Mutator:
    """Mutates inputs of one target: its shape, its words, and the inputs that parts are taken from."""

    def __init__(self, shape: Shape, words: Sequence[bytes], pool: Sequence[bytes]) -> None:
        self._shape, self._words, self.pool = shape, tuple(words), list(pool)

    def next(self, chance: random.Random) -> bytes:
        """An input that most likely was not tried yet."""
        content = chance.choice(self.pool) if self.pool else b""
        longest = INPUT_BYTES_MAX if chance.random() < 0.05 else SHORT_BYTES_MAX
        for _ in range(chance.randint(1, STEPS_MAX)):
            content = self._step(chance, content)[:longest]
        return content

    def _step(self, chance: random.Random, content: bytes) -> bytes:
        if chance.random() < 0.75:
            whole = _SHAPES[self._shape](self, chance, content)
            if whole is not None:
                return whole
        return self.text(chance, content) if chance.random() < 0.5 else self.blind(chance, content)

    def word(self, chance: random.Random) -> bytes:
        return chance.choice(self._words) if self._words and chance.random() < 0.6 else chance.choice(TEXTS)

    def blind(self, chance: random.Random, content: bytes) -> bytes:
        """Change bytes without parsing."""
        at = chance.randint(0, len(content))
        end = min(len(content), at + chance.choice((1, 1, 2, 4, 16, 256)))
        match chance.randrange(8):
            case 0 if content:
                at = chance.randrange(len(content))
                return content[:at] + bytes((content[at] ^ (1 << chance.randrange(8)),)) + content[at + 1 :]
            case 1:
                return content[:at] + bytes((chance.randrange(256),)) + content[at + 1 :]
            case 2:
                return content[:at] + content[end:]
            case 3:
                return content[:at] + content[at:end] * _times(chance, end - at) + content[end:]
            case 4:
                return content[:at]
            case 5:
                return content[:at] + chance.randbytes(chance.randint(1, 8)) + content[at:]
            case 6:
                other = chance.choice(self.pool) if self.pool else b""
                cut = chance.randint(0, len(other))
                return content[:at] + other[cut:]
            case _:
                return content[:at] + self.word(chance) + content[end:]

    def text(self, chance: random.Random, content: bytes) -> bytes:
        """Omit, duplicate or exchange words and punctuation."""
        tokens = _TOKENS.findall(content)
        if not tokens:
            return self.word(chance)
        at = chance.randrange(len(tokens))
        span = chance.choice((1, 1, 1, 2, 3, 8))
        match chance.randrange(7):
            case 0:
                del tokens[at : at + span]
            case 1:
                part = tokens[at : at + span]
                tokens[at:at] = part * _times(chance, sum(map(len, part)))
            case 2:
                other = chance.randrange(len(tokens))
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case 3:
                tokens[at] = self.word(chance)
            case 4:
                tokens.insert(at, self.word(chance))
            case 5:
                others = _TOKENS.findall(chance.choice(self.pool)) if self.pool else []
                begin = chance.randint(0, len(others))
                tokens[at : at + span] = others[begin : begin + chance.choice((1, 2, 4, 16))]
            case _:
                tokens[at] = chance.choice((bytes.upper, bytes.lower, bytes.swapcase))(tokens[at])
        return b"".join(tokens)

    def json(self, chance: random.Random, content: bytes) -> bytes | None:
        """Change a value, a name or a place in a document; None if it is not JSON."""
        ascii_only, separators = chance.random() < 0.5, chance.choice(((",", ":"), None))
        try:
            text = json.dumps(self.value(chance, json.loads(content)), ensure_ascii=ascii_only, separators=separators)
        except (ValueError, RecursionError):
            return None
        encoded = text.encode(errors="surrogatepass")
        if chance.random() < 0.05:  # a name that stands twice
            encoded = re.sub(rb'("[^"]*":)', rb"\1 0, \1", encoded, count=1)
        return encoded

    def value(self, chance: random.Random, document: Any) -> Any:
        """A changed copy of a JSON value; ``document`` may be modified."""
        holders = list(_holders(document))
        if not holders:
            return self._new_value(chance, document)
        holder, key = chance.choice(holders)
        match chance.randrange(8):
            case 0:
                del holder[key]
            case 1 if isinstance(holder, dict):
                holder[self._name(chance)] = holder.pop(key)
            case 1:
                holder.extend([holder[key]] * _times(chance, 50))
            case 2 if isinstance(holder, dict):
                holder[self._name(chance)] = self._new_value(chance, holder[key])
            case 3:
                inner = holder[key]
                for _ in range(chance.choice((1, 2, 99, 201, 600))):
                    inner = [inner] if chance.random() < 0.5 else {"a": inner}
                holder[key] = inner
            case 4:
                other, there = chance.choice(holders)
                if there in other if isinstance(other, dict) else there < len(other):
                    holder[key] = _copy(other[there])
            case 5 if self.pool:
                try:
                    donor = list(_holders(json.loads(self.json_of(chance.choice(self.pool)))))
                except (ValueError, RecursionError):
                    donor = []
                if donor:
                    where, there = chance.choice(donor)
                    holder[key] = where[there]
            case _:
                holder[key] = self._new_value(chance, holder[key])
        return document

    def json_of(self, content: bytes) -> bytes:
        """The document in an input of this shape."""
        if self._shape == "request":
            return content.partition(b"\n")[2]
        if self._shape == "frame":
            head = split_frame(content)
            return head[0] if head is not None else b""
        return content

    def _name(self, chance: random.Random) -> str:
        return self.word(chance).decode(errors="replace")

    def _new_value(self, chance: random.Random, old: Any) -> Any:
        match old:
            case str() if chance.random() < 0.6:
                return self.text(chance, old.encode(errors="surrogatepass")).decode(errors="replace")
            case bool():
                return not old
            case int() if chance.random() < 0.6:
                return old + chance.choice((-1, 1, 2**31, 2**53, -(2**63)))
            case _:
                return _copy(chance.choice(INTERESTING)) if chance.random() < 0.7 else self._name(chance)

    def der(self, chance: random.Random, content: bytes) -> bytes | None:
        """Change an element of a DER value, and correct the lengths above it."""
        tree = der.parse(content)
        if tree is None:
            return None
        other = der.parse(chance.choice(self.pool))
        return der.encode(der.mutate(chance, tree, other, lambda old: self.blind(chance, old)))

    def frame(self, chance: random.Random, content: bytes) -> bytes | None:
        """Change header or content of a frame; mostly, the length is corrected and content is compressed again."""
        parts = split_frame(content)
        if parts is None:
            return None
        head, body = parts
        if chance.random() < 0.5:
            head = self.json(chance, head) or self.text(chance, head)
        else:
            body = self.packed(chance, body)
        length = len(head) if chance.random() < 0.97 else chance.choice((0, 1, len(head) - 1, 2**16 + 1, 2**32 - 1))
        return bytes((1,)) + max(0, length).to_bytes(4, "big") + head + body

    def packed(self, chance: random.Random, body: bytes) -> bytes:
        """Change the content of a frame, mostly inside the uncompressed content."""
        if body[:4] == b"\x28\xb5\x2f\xfd" and chance.random() < 0.7:
            try:
                plain = codec.unpack("zstd", body, INPUT_BYTES_MAX)
            except RemoteError:
                return self.blind(chance, body)
            changed = self.json(chance, plain) or self.blind(chance, plain)
            return zstandard.ZstdCompressor(level=1).compress(changed)
        return self.json(chance, body) or self.blind(chance, body)

    def story(self, chance: random.Random, content: bytes) -> bytes | None:
        """One of several frames is changed, omitted, duplicated, sent too early, or taken from another story."""
        frames = split_story(content)
        if not frames:
            return None
        at = chance.randrange(len(frames))
        match chance.randrange(7):
            case 0:
                del frames[at]
            case 1:
                frames[at:at] = [frames[at]] * chance.choice((1, 1, 2, 10))
            case 2:
                other = chance.randrange(len(frames))
                frames[at], frames[other] = frames[other], frames[at]
            case 3:
                others = split_story(chance.choice(self.pool))
                frames[at:at] = others[: chance.randint(0, len(others))]
            case _:
                frames[at] = self.frame(chance, frames[at]) or self.blind(chance, frames[at])
        return join_story(frames)

    def request(self, chance: random.Random, content: bytes) -> bytes | None:
        """Change the first line or the body after it."""
        line, _, body = content.partition(b"\n")
        if chance.random() < 0.4 or not body:
            return self.text(chance, line).replace(b"\n", b"%0A") + b"\n" + body
        return line + b"\n" + (self.json(chance, body) or self.blind(chance, body))


def _times(chance: random.Random, size: int) -> int:
    """How often a part of this size is repeated, within the size of an input."""
    return min(chance.choice(REPEATS), max(1, INPUT_BYTES_MAX // max(1, size)))


def split_frame(content: bytes) -> tuple[bytes, bytes] | None:
    """(header, content) of a frame of the link; None where it is cut off."""
    end = 5 + int.from_bytes(content[1:5], "big")
    return (content[5:end], content[end:]) if len(content) >= end > 5 else None


def split_story(content: bytes) -> list[bytes]:
    """Frames in sequence, each with its length in front."""
    frames, at = [], 0
    while at + 4 <= len(content):
        size = int.from_bytes(content[at : at + 4], "big")
        frames.append(content[at + 4 : at + 4 + size])
        at += 4 + size
    return frames


def join_story(frames: Sequence[bytes]) -> bytes:
    """The inverse of ``split_story``."""
    return b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)


def _holders(document: Any) -> Any:
    """(list or object, index or name) of every value inside."""
    stack = [document]
    while stack:
        each = stack.pop()
        keys = list(each) if isinstance(each, dict) else range(len(each)) if isinstance(each, list) else ()
        for key in keys:
            yield each, key
            stack.append(each[key])


def _copy(value: Any) -> Any:
    return json.loads(json.dumps(value)) if isinstance(value, list | dict) else value


_SHAPES: Final[dict[Shape, Callable[[Mutator, random.Random, bytes], bytes | None]]] = {
    "bytes": Mutator.blind,
    "text": Mutator.text,
    "json": Mutator.json,
    "der": Mutator.der,
    "frame": Mutator.frame,
    "story": Mutator.story,
    "request": Mutator.request,
}
