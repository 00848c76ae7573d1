"""What every world raises when a promise did not hold."""


class LawBroken(AssertionError):
    """The text says which law, when and where."""
