"""One of something is no plural."""

from fairlead_cli.text import quantities


def test_one_and_others() -> None:
    """Zero and many are plural; some nouns have a plural of their own."""
    assert [quantities.of(number, "dead letter") for number in (0, 1, 2)] == [
        "0 dead letters",
        "1 dead letter",
        "2 dead letters",
    ]
    assert (quantities.of(1, "retry", "retries"), quantities.of(5, "retry", "retries")) == ("1 retry", "5 retries")
