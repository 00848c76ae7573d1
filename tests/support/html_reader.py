"""Reads a page as text, and fails if its tags are not balanced."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "rect", "path", "circle"}


class Balance(HTMLParser):
    """Checks that every opened tag is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        assert tag in VOID

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data + "\n"


def read(page: str) -> str:
    balance = Balance()
    balance.feed(page)
    assert balance.open == []
    return balance.text
