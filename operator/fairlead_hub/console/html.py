"""HTML elements as values: text is escaped unless it is ``Html``, and only ``tag`` creates ``Html``.

tag("a", "shop <1>", href="/console/nodes/shop")  ─▶  <a href="/console/nodes/shop">shop &lt;1&gt;</a>
"""

from __future__ import annotations

import html
import re

_NAME = re.compile(r"[a-z][a-z0-9-]*")
_VOID = frozenset(["meta", "link", "input", "img", "br"])
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
"""Control characters and characters that change text direction.  They are made visible, so that no name can look
like another."""


class Html(str):
    """Text that already is markup."""

    __slots__ = ()


def text(value: object) -> Html:
    """Escape a value and make invisible characters visible."""
    return Html(html.escape(_UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", str(value)), quote=True))


def join(*children: object) -> Html:
    """Concatenate; everything but ``Html`` is escaped, and None and False are skipped."""
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
    """``class_`` and ``data_x`` become class and data-x.

    True: an attribute without value; None or False: no attribute.
    """
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
