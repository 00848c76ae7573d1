"""Nothing that comes from outside becomes markup."""

import pytest

from fairlead_hub.console.html import Html, join, tag, text

HOSTILE = "<img src=x onerror=alert(1)>\"'&"


def test_text_is_escaped_in_content_and_in_attributes():
    """By default; there is no other way to write it."""
    assert "<img" not in tag("p", HOSTILE, title=HOSTILE)[2:]
    assert tag("p", HOSTILE) == "<p>&lt;img src=x onerror=alert(1)&gt;&quot;&#x27;&amp;</p>"


def test_only_elements_are_markup():
    """A list of them, nothing, and text side by side."""
    assert join(tag("b", "x"), None, False, ["<", tag("br")], 3) == "<b>x</b>&lt;<br>3"
    assert isinstance(join("a"), Html)


def test_attributes_without_value_and_those_that_are_left_out():
    """As HTML writes them."""
    assert tag("input", hidden=True, value=None, data_x=1, class_="a") == '<input hidden data-x="1" class="a">'


@pytest.mark.parametrize("name", ["onclick", "on_load", "A b"])
def test_no_attribute_is_a_script(name):
    """A name is the program's own; one that cannot be right is a mistake here."""
    with pytest.raises(AssertionError):
        tag("p", **{name: "alert(1)"})


def test_what_cannot_be_seen_is_shown():
    """A name that turns the direction of text, or hides in no width, looks like what it is."""
    assert text("a\u202eb\u200bc\x00") == "a\\u202eb\\u200bc\\u0000"
