"""The error that every world raises when a promise was broken."""


class LawBroken(AssertionError):
    """The message says which law, when and where."""
