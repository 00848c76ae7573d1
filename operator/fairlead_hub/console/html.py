"""Elements as values: text is escaped because it is no ``Html``, and nothing becomes ``Html`` but by ``tag``.

tag("a", "shop <1>", href="/console/nodes/shop")  ─▶  <a href="/console/nodes/shop">shop &lt;1&gt;</a>
"""

from __future__ import annotations

import html
import re

_NAME = re.compile(r"[a-z][a-z0-9-]*")
_VOID = frozenset(["meta", "link", "input", "img", "br"])
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
"""Control characters, and those that turn the direction of what is beside them: shown, so that no name looks like
another."""


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


def text(value: object) -> Html:
    """Escaped; what cannot be seen is shown."""
    return Html(html.escape(_UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", str(value)), quote=True))


def join(*children: object) -> Html:
    """One after the other; what is no ``Html`` is escaped, and None and False are nothing."""
    return Html("".join(_each(child) for child in children))


def _each(child: object) -> str:
    if child is None or child is False:
        return ""
    if isinstance(child, Html):
        return child
    if isinstance(child, list | tuple):
        return join(*child)
    return text(child)


def tag(name: str, /, *children: object, **attributes: object) -> Html:
    """``class_`` and ``data_x`` are written class and data-x; True: an attribute without value; None, False: none."""
    assert _NAME.fullmatch(name), name
    parts = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        called = key.rstrip("_").replace("_", "-")
        assert _NAME.fullmatch(called) and not called.startswith("on"), called
        parts.append(called if value is True else f'{called}="{text(value)}"')
    opened = f"<{' '.join(parts)}>"
    return Html(opened if name in _VOID else f"{opened}{join(*children)}</{name}>")
