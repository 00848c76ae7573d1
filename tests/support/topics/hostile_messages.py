"""Messages that try to stop a pipeline: envelopes and bodies at every limit, by seed.

hostile.messages(seed, count) → payloads; the first are the known limits, the rest are random
"""

from __future__ import annotations

import json
import random
from typing import Any

COLUMNS = {
    "i8": "tinyint", "i32": "int", "i64": "bigint", "f": "float", "d": "double", "dec": "decimal(10,2)",
    "t": "timestamp", "day": "date", "local": "timestamp_ntz", "s": "string", "yes": "boolean", "bin": "binary",
    "list": "array<int>", "texts": "array<string>", "map": "map<string,double>",
    "place": "struct<lat:double,at:timestamp,`odd.name`:string>", "a.b": "double", "c`d": "string",
}  # fmt: skip
_ENVELOPE = ("id", "node", "epoch", "stream", "sequence", "source", "priority", "enqueued_at", "properties",
             "systemProperties", "body", "bodyBase64")  # fmt: skip
_DEPTHS = (99, 250, 495, 497, 498, 499, 500, 501, 505, 700, 900, 960, 978, 980, 985, 989, 990, 996, 1000, 1005, 2000,
           20_000, 200_000)  # fmt: skip
_MOMENTS = (
    "9999-12-31T23:59:59.999999Z", "0001-01-01T00:00:00+14:00", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59-12:00",
    "0000-01-01T00:00:00Z", "10000-01-01T00:00:00Z", "-0001-01-01", "1582-10-10T00:00:00Z", "1900-01-01T00:00:00Z",
    "2026-11-22", "12:30", "2026", "2026-02-30T00:00:00Z", "2026-11-22T24:00:00Z", "2026-11-22T23:59:60Z",
    "2026-11-22T10:00:00.1234567Z", "2026-11-22T10:00:00", "294247-01-10T04:00:54.775807Z", "+294247-01-11", "now", "",
    "2026-11-22T10:00:00 Europe/Paris", "2026-11-22T10:00:00+99:99", "9999-12-31", "0001-01-01", "2026-11-22T10:00:00Z",
)  # fmt: skip
_NUMBERS = (
    "0", "-0", "1", "127", "128", "200", "-129", "2147483647", "2147483648", "9007199254740992", "9007199254740993",
    "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809",
    "18446744073709551616", "1.0", "1.10", "0.1", "1.239", "1e5", "1E400", "-1e400", "1e39", "3.4028235e38", "1e-400",
    "1e1000000000", "1e-1000000000", "1e2147483648", "9" * 400, "9" * 5000, "0." + "1" * 3000, "NaN", "Infinity",
    "-Infinity", "01", "+1", "1.", ".5", "0x10", "1_000",
)  # fmt: skip
_STRINGS = (
    '""', '"x"', '"\\u0000"', '"\\ud800"', '"\\udc00\\ud800 and more"', '"\\ud83d\\ude00"', '"a\\u0000b"', '"NaN"',
    '"Infinity"', '"1,234"', '" 1.5 "', '"1e3"', '"aGk="', '"not base64!"', '"aGk"', '"\\"', '"\\x"', '"\\u12"',
    '"tab\there"', '"é"', '"\u202e\u0000"', '"' + "x" * 1_000_000 + '"', '"' + "\\u0041" * 5000 + '"',
)  # fmt: skip
_OTHERS = ("null", "true", "false", "[]", "{}", "[null]", '{"":1}', "[1,[2,[3]]]", '{"x":1e39}', "[", "{", "}", "", " ")


def messages(seed: int, count: int) -> list[bytes]:
    """``count`` payloads, the same for the same seed; about half of them are upstream messages."""
    draw = random.Random(seed)
    known = _edges()
    return [known[index] if index < len(known) else _drawn(draw, index) for index in range(count)]


def good(number: int, body: str = '{"d":1.5}') -> bytes:
    """A valid message with this body."""
    return _message(number, {"body": body})


def _edges() -> list[bytes]:
    found: list[bytes] = [b"", b"\x00", b"null", b"[]", b"{}", b"\xff\xfe", b'"x"', b"{" * 100_000, b"\xef\xbb\xbf{}"]
    for index, moment in enumerate(_MOMENTS):
        found.append(_message(index, {"enqueued_at": json.dumps(moment)}))
        found.append(_message(index, {"body": json.dumps({"t": moment, "day": moment, "local": moment})}))
        # A body that does not fit, beside a time that Python cannot hold.
        found.append(_message(index, {"body": json.dumps({"i8": "x", "t": moment, "day": moment})}))
    for depth in _DEPTHS:
        deep = "[" * depth + "]" * depth
        found.append(_message(depth, {"body": '{"d":1,"deep":' + deep + "}"}))
        found.append(_message(depth, {"body": deep}))
        found.append(_message(depth, {"properties": '{"a":' * depth + "1" + "}" * depth}))
        found.append(_message(depth, {"body": '{"place":' * depth + "1" + "}" * depth}))
        found.append(_message(depth, {"unknown": deep}))
    for value in (*_NUMBERS, *_STRINGS, *_OTHERS):
        columns = ("i8", "f", "dec", "s", "list", "map")
        found += [_message(1, {"body": f'{{"{name}":{value}}}'}) for name in columns]
        found.append(_message(1, {"body": value}))
        found += [_message(1, {name: value}) for name in _ENVELOPE if len(value) < 10_000]
    names = ["Temp", "temp", "TEMP", "a.b", "c`d", "", " ", "I8", "id", "_topic", "é", "x" * 60_000, "\\u0000"]
    found += [_message(2, {"body": "{" + ",".join(f'"{name}":1' for name in names) + "}"})]
    found += [_message(2, {"body": f'{{"{name}":1,"{name}":"two"}}'}) for name in names[:-2]]
    found.append(_message(3, {"body": "{" + ",".join(f'"k{index}":{index}' for index in range(10_000)) + "}"}))
    found.append(_message(4, {"node": '"' + "n" * 1_000_000 + '"'}))
    found.append(_message(5, {"body": '{"s":"' + "é" * 500_000 + '"}'}))
    found.append(_message(6, {"body": '{"s":"\xff"}'}).decode().encode("latin-1"))
    found += [good(7).replace(b"1.5", bytes([byte])) for byte in range(256)]
    return found


def _drawn(draw: random.Random, number: int) -> bytes:
    fields: dict[str, str] = {}
    if draw.random() < 0.8:
        fields["body"] = _body(draw)
    for _ in range(draw.choice((0, 0, 1, 2))):
        name = draw.choice((*_ENVELOPE, "unknown"))
        fields[name] = _value(draw, 2)
    whole = _message(number, fields, leaving_out=draw.choice((None, None, None, *_ENVELOPE)))
    if draw.random() < 0.15:
        at = draw.randrange(len(whole))
        whole = whole[:at] + bytes(draw.randrange(256) for _ in range(draw.choice((0, 1, 3)))) + whole[at + 1 :]
    return whole if draw.random() > 0.03 else whole[: draw.randrange(len(whole))]


def _body(draw: random.Random) -> str:
    names = draw.sample([*COLUMNS, "Temp", "temp", "other", "D", ""], draw.randrange(6))
    return "{" + ",".join(f"{json.dumps(name)}:{_value(draw, 3)}" for name in names) + "}"


def _value(draw: random.Random, depth: int) -> str:
    kind = draw.randrange(8)
    if kind < 2:
        return draw.choice(_NUMBERS)
    if kind == 2:
        return draw.choice(_STRINGS[:-2])
    if kind == 3:
        return json.dumps(draw.choice(_MOMENTS))
    if kind == 4 and depth:
        return "[" + ",".join(_value(draw, depth - 1) for _ in range(draw.randrange(4))) + "]"
    if kind == 5 and depth:
        names = draw.sample(["lat", "at", "odd.name", "x", "X", ""], draw.randrange(4))
        return "{" + ",".join(f"{json.dumps(name)}:{_value(draw, depth - 1)}" for name in names) + "}"
    if kind == 6:
        return str(draw.choice((draw.randrange(-300, 300), draw.uniform(-1e3, 1e3), draw.randrange(2**54, 2**66))))
    return draw.choice(_OTHERS[:9])


def _message(number: int, fields: dict[str, str], *, leaving_out: str | None = None) -> bytes:
    values: dict[str, Any] = {
        "id": f'"edge-{number}"', "node": '"edge"', "epoch": "4503599627370497", "stream": '"s"',
        "sequence": str(number), "source": '"/messages/*"', "priority": "0", "enqueued_at": '"2026-11-22T10:00:00Z"',
        "properties": "{}", "systemProperties": "null", "body": '{"d":1.5}', **fields,
    }  # fmt: skip
    values.pop(leaving_out or "", None)
    return ("{" + ",".join(f'"{name}":{value}' for name, value in values.items()) + "}").encode("utf-8", "replace")
