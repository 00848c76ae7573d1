"""The base of what people write in the cluster: strict, frozen, unknown keys refused."""

from __future__ import annotations

import pydantic
import pytest

from fairlead_wire.validation.model import ListenAddress, Model


class Settings(Model):
    listen: ListenAddress = "127.0.0.1:1"
    seconds: float = 1


@pytest.mark.parametrize("document", [{"seconds": "1"}, {"secnds": 1}, {"seconds": float("nan")}, {"seconds": True}])
def test_nothing_is_guessed(document: dict[str, object]) -> None:
    """A number in quotes is no number, a misspelt key no key."""
    with pytest.raises(pydantic.ValidationError):
        Settings.model_validate(document)


def test_values_stay_as_they_were_read() -> None:
    """They are handed to threads and kept for the whole run; an error never quotes what it was given."""
    settings = Settings.model_validate({"listen": "[::1]:80", "seconds": 2})
    with pytest.raises(pydantic.ValidationError):
        settings.seconds = 3
    with pytest.raises(pydantic.ValidationError) as refused:
        Settings.model_validate({"listen": "wss://user:secret@host"})
    assert "input_value" not in str(refused.value)
