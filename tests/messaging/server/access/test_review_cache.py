"""What is remembered of tokens."""

from __future__ import annotations

import base64
import json

from fairlead_messaging.server import access
from fairlead_messaging.server.access import AWAY_SECONDS, FRESH_SECONDS, Review, ReviewCache, Subject

TILL = Subject("serviceaccount", "shop:till")
WALL = 1_800_000_000.0


def token(**claims: object) -> str:
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    return f"eyJh.{payload}.c2ln"


def test_a_minute_and_ten_while_the_api_is_away() -> None:
    """Neither longer, and never beyond the end of the token itself."""
    cache = ReviewCache()
    cache.put(b"k", Review(TILL, 0.0, WALL + 300))
    assert cache.get(b"k", FRESH_SECONDS - 1, WALL) is not None
    assert cache.get(b"k", FRESH_SECONDS, WALL) is None
    assert cache.get(b"k", FRESH_SECONDS, WALL, away=True) is not None
    assert cache.get(b"k", FRESH_SECONDS, WALL + 300, away=True) is None
    cache.put(b"l", Review(TILL, 0.0, float("inf")))
    assert cache.get(b"l", AWAY_SECONDS, WALL, away=True) is None


def test_a_token_that_is_not_valid_is_asked_about_again_soon() -> None:
    """Also while the API is away nothing makes it valid."""
    cache = ReviewCache()
    cache.put(b"k", Review(None, 0.0, float("inf")))
    found = cache.get(b"k", 1.0, WALL, away=True)
    assert found is not None and found.account is None
    assert cache.get(b"k", 11.0, WALL, away=True) is None


def test_a_flood_of_bad_tokens_pushes_no_good_one_out() -> None:
    """And memory stays bounded."""
    cache = ReviewCache(reviews_max=10)
    cache.put(b"good", Review(TILL, 0.0, float("inf")))
    for number in range(1000):
        cache.put(str(number).encode(), Review(None, 0.0, float("inf")))
    assert cache.get(b"good", 1.0, WALL) is not None
    assert len(cache) <= 11


def test_the_end_of_a_token_is_read_and_what_cannot_be_read_has_none() -> None:
    """It is asked of valid tokens alone."""
    assert access.token_end(token(exp=5)) == 5.0
    assert access.token_end(token(sub="x")) == float("inf")
    assert access.token_end("a.%%%.c") == float("inf")
    assert access.token_end("a." + base64.urlsafe_b64encode(b"[" * 4000).decode().rstrip("=") + ".c") == float("inf")


def test_what_cannot_be_a_token_is_never_asked_about() -> None:
    """Its length is bounded, and its characters are those of base64url."""
    assert access.looks_like_token(token(exp=5))
    for text in ("", "abc", "a.b", "a..c", "a.b.c.d", "a.b.c d", "a.b.\u00e4", "a.b." + "c" * 9000, "a.b\n.c"):
        assert not access.looks_like_token(text)
