from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_wire.identity import join_token

PIN, OTHER = "ab" * 32, "cd" * 32


def test_a_token_is_read_as_it_was_made() -> None:
    made = join_token.make(os.urandom, [PIN, OTHER])
    assert join_token.parse(made.text) == made
    assert join_token.parse(f"  {made.text}\n") == made
    assert made.text.startswith("fl1-") and made.text.endswith(f"-{PIN}.{OTHER}")
    assert join_token.is_id(made.id) and len(made.text) <= join_token.TEXT_CHARS_MAX


def test_the_one_token_of_a_text_is_found() -> None:
    """What was printed beside it does not harm; which of two is meant cannot be known."""
    one, other = (join_token.make(os.urandom, [PIN]) for _ in range(2))
    assert join_token.find(f"{one.text}\r\necho {one.text} | sudo fairlead edge join\n") == one
    with pytest.raises(ValueError, match="more than one join token"):
        join_token.find(f"{one.text}\n{other.text}\n")
    with pytest.raises(ValueError, match="is not a join token"):
        join_token.find(f"{one.text[:30]} {one.text[30:]}")


def test_the_secret_is_not_shown_by_accident() -> None:
    made = join_token.make(os.urandom, [PIN])
    assert made.secret not in f"{made} {made!r} {[made]}" and made.id in str(made)


@pytest.mark.parametrize(
    "text",
    [
        "", "fl1", "fl1---", f"fl2-{'a' * 10}-{'b' * 26}-{PIN}", f"fl1-{'a' * 9}-{'b' * 26}-{PIN}",
        f"fl1-{'a' * 10}-{'b' * 25}-{PIN}", f"fl1-{'a' * 10}-{'b' * 26}-", f"fl1-{'a' * 10}-{'b' * 26}-{PIN.upper()}",
        f"fl1-{'1' * 10}-{'b' * 26}-{PIN}", f"fl1-{'a' * 10}-{'b' * 26}-{'.'.join([PIN] * 5)}", "x" * 100_000,
    ],
)  # fmt: skip
def test_what_is_no_token_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(ValueError, match="is not a join token") as refused:
        join_token.parse(text)
    assert len(str(refused.value)) < 200


@given(st.text(max_size=200))
def test_any_text_is_a_token_or_refused(text: str) -> None:
    try:
        found = join_token.parse(text)
    except ValueError:
        return
    assert found.text == text.strip()


def test_the_hash_is_of_the_secret_alone() -> None:
    made = join_token.make(os.urandom, [PIN])
    assert join_token.hash_of(made.secret) == join_token.hash_of(made.secret) != join_token.hash_of(made.id)
    assert len(join_token.hash_of("")) == len(join_token.pin_of(b"")) == 64


def test_every_letter_is_as_likely() -> None:
    made = join_token.make(lambda count: bytes(range(count)), [PIN])
    assert made.id == join_token.ALPHABET[:10] and 256 % len(join_token.ALPHABET) == 0


TEXT = f"fl1-{'a' * 10}-{'b' * 26}-{PIN}"


@pytest.mark.parametrize(
    ("damaged", "said"),
    [
        (TEXT[:-1], "its pin has 63 characters and must have 64"),
        (TEXT[4:], "its beginning or its end is missing"),
        (TEXT.rpartition("-")[0], "its beginning or its end is missing"),
        (f"{TEXT[:-1]}x", "its pin has invalid characters"),
        (TEXT.replace("b" * 26, "b" * 27), "its secret has 27 characters"),
        (TEXT.replace("a" * 10, "a" * 9 + "1"), "its id has invalid characters"),
        (f"{TEXT}{f'.{PIN}' * 4}", "it has 5 pins"),
    ],
)
def test_a_token_that_was_copied_wrong_says_where(damaged: str, said: str) -> None:
    with pytest.raises(ValueError, match=f"is not a join token: {said}") as refused:
        join_token.parse(damaged)
    assert "b" * 10 not in str(refused.value)
