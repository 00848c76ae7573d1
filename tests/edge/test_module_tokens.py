"""Which module a token belongs to."""

from __future__ import annotations

import pytest

from fairlead_edge import module_tokens
from fairlead_edge.module_tokens import BadTokens, ModuleTokens, line, parse


def test_token_names_its_module_and_no_other_text_does() -> None:
    """Two tokens of one module while one is being replaced; comments and blank lines are passed over."""
    text = f"# ours\n\n{line('filter', 'one')}  # old\n{line('filter', 'two')}\n{line('pump', 'three')}\n"
    tokens = parse(text)
    assert [tokens.module_of(shown) for shown in ("one", "two", "three")] == ["filter", "filter", "pump"]
    strangers = ("", "four", "ONE", "one ", "x" * (module_tokens.TOKEN_CHARS_MAX + 1), "\udcff")
    assert [tokens.module_of(shown) for shown in strangers] == [""] * len(strangers)
    assert tokens.count == 2
    assert tokens.has("FILTER") and tokens.has("pump") and not tokens.has("other")
    assert "one" not in line("filter", "one")


def test_file_without_tokens_knows_none() -> None:
    assert parse("# none yet\n").module_of("") == ""
    assert ModuleTokens().count == 0


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("filter", "line 1: must be a module's name and the SHA-256"),
        ("filter secret-in-clear", "line 1: must be"),
        ("\nfil/ter " + "0" * 64, "line 2: must be"),
        (f"{line('filter', 'a')}\n{line('Filter', 'b')}", "line 2: Filter and filter differ only in case"),
        ("\n" * (module_tokens.LINES_MAX + 1), "at most 1000 lines"),
    ],
)
def test_bad_text_is_refused_with_its_line_but_not_quoted(text: str, reason: str) -> None:
    with pytest.raises(BadTokens) as refused:
        parse(text)
    assert reason in str(refused.value) and "secret" not in str(refused.value)


def test_name_that_no_source_can_have_is_refused() -> None:
    with pytest.raises(BadTokens, match="no blanks"):
        line("two words", "token")
