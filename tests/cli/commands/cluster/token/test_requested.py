"""`fairlead token create`: what is refused before a cluster is asked."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from fairlead_cli.main import build


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "give one of --node NAME, --pattern 'shop-*' and --file FILE"),
        (("--node", "a", "--pattern", "b*"), "give one of"),
        (("--node", "a", "--uses", "2"), "--uses is for --pattern"),
        (("--node", "A"), "'A' cannot be the name of a Node"),
        (("--pattern", "shop"), "write the beginning of the names, then *"),
        (("--pattern", "*-shop-*"), "write the beginning of the names, then *"),
        (("--pattern", "a*", "--replace"), "--replace needs the name of the node"),
        (("--pattern", "a*", "--create-node"), "--create-node needs names"),
        (("--pattern", "a*", "--uses", "10001"), "10001 is not in the range"),
        (("--replace", "a", "--node", "b"), "are two nodes; name one"),
        (("--node", "a", "--ttl", "31d"), "must be from 1m to 30d"),
        (("--node", "a", "--hub", "https://hub"), "is no URL of a hub"),
        (("--node", "a", "--ca-file", __file__), "holds no certificates in PEM"),
        (("--file", "-"), "holds no names; write one a line"),
    ],
)
def test_wrong_use_is_exit_code_2(words: tuple[str, ...], sentence: str) -> None:
    """Before any cluster is asked."""
    done = CliRunner().invoke(build(), ["token", "create", *words])
    assert done.exit_code == 2 and sentence in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("shop-1\nShop-2\n", ":2: 'Shop-2' cannot be the name of a Node"),
        ("shop-1\n\nshop-1 # again\n", ":3: shop-1 is there twice, first in line 1"),
        ("".join(f"n{each}\n" for each in range(10_001)), "more than 10,000 names; split the file"),
    ],
)
def test_names_are_all_checked_first(text: str, sentence: str) -> None:
    """With file and line."""
    done = CliRunner().invoke(build(), ["token", "create", "--file", "-"], input=text)
    assert done.exit_code == 2 and sentence in done.stderr, done.stderr[-300:]


def test_a_file_that_is_no_text_is_wrong_use(tmp_path: Path) -> None:
    file = tmp_path / "names.xls"
    file.write_bytes(b"\xe1\xff\x00")
    done = CliRunner().invoke(build(), ["token", "create", "--file", str(file)])
    assert done.exit_code == 2 and "cannot be read as text in UTF-8" in done.stderr
