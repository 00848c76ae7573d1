"""Keys are changed, and all else stays as people wrote it; what cannot be edited safely is refused."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_edge.identity.settings_text import CannotEdit, edited, fresh

PACKAGED = Path(__file__).parents[3] / "charts" / "fairlead-edge" / "systemd" / "edge.toml"


def test_values_change_and_the_rest_stays() -> None:
    text = """\
# our shop
node = "NODE"   # from the label on the box
hub_url='wss://HUB:PORT'
log_level = 'debug'

[store]
node = "is another key"
max_bytes = 1_000_000  # enough
"""
    assert edited(text, {"node": "shop-17", "hub_url": "wss://hub:1", "tls_ca": "/a b/ca.pem"}) == (
        """\
# our shop
node = "shop-17"   # from the label on the box
hub_url="wss://hub:1"
log_level = 'debug'
tls_ca = "/a b/ca.pem"

[store]
node = "is another key"
max_bytes = 1_000_000  # enough
"""
    )


def test_the_file_of_the_package_can_be_edited() -> None:
    text = edited(PACKAGED.read_text(), {"node": "shop-17", "tls_key": "/k"})
    assert text.startswith("# /etc/fairlead/edge.toml") and tomllib.loads(text)["tls_key"] == "/k"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing but a comment",
        "[store]\nmax_bytes = 1",
        'x = """\nmodule = "no key"\n"""\n[store]\n',
        "y = [\n 1,\n]\n",
    ],
)
def test_keys_that_are_missing_are_added_where_they_are_top_keys(text: str) -> None:
    assert tomllib.loads(edited(text, {"node": "shop-17"})) == {**tomllib.loads(text), "node": "shop-17"}


@pytest.mark.parametrize(
    "text", ['node = """a\nb"""', 'x = """\nnode = "no key"\n"""', '"node" = "a"', "node.a = 1", "[node]\na = 1"]
)
def test_what_programs_do_not_change_is_refused(text: str) -> None:
    with pytest.raises(CannotEdit, match="cannot be edited automatically"):
        edited(text, {"node": "shop-17"})


@pytest.mark.parametrize("text", ["node = ", "x = " + "9" * 5000])
def test_what_is_no_toml_is_refused(text: str) -> None:
    with pytest.raises(CannotEdit, match="it is not TOML"):
        edited(text, {"node": "shop-17"})


@given(
    st.lists(
        st.sampled_from(
            ["# note", "", 'node = "a"', "node = 'b' # c", "[t]", "u = 1", 'v = """', '"""', "w = [", "]", "x=2"]
        ),
        max_size=8,
    ),
    st.text(max_size=20),
)
def test_the_result_says_what_it_should_or_there_is_none(lines: list[str], value: str) -> None:
    text = "\n".join(lines)
    try:
        result = edited(text, {"node": value})
    except CannotEdit:
        return
    assert tomllib.loads(result) == {**tomllib.loads(text), "node": value}


def test_a_new_file_says_what_it_was_given() -> None:
    text = fresh({"node": "shop-17", "data_dir": 'C:\\quoted "x"'})
    assert tomllib.loads(text) == {"node": "shop-17", "data_dir": 'C:\\quoted "x"'} and "docs/reference/edge.md" in text
