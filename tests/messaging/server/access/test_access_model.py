"""The table as people write it."""

from __future__ import annotations

import pydantic
import pytest

from fairlead_messaging.server.settings import AccessModel


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("subject", "serviceaccount:x", "subject: must be serviceaccount:NAMESPACE:NAME"),
        ("subject", "spiffe://fairlead/node/a", "nodes publish through the hub"),
        ("verbs", ["publish", "consum"], "did you mean consume"),
        ("topics", ["telemetry"], "topics[0]: must be namespace/name"),
        ("topics", ["!system/*"], "grants nothing"),
    ],
)
def test_what_would_grant_something_else_is_refused_with_its_key(key: str, value: object, said: str) -> None:
    """A table that is wrong by a letter must not wait for the first refusal."""
    whole = {"subject": "app", "verbs": ["publish"], "topics": ["default/*"], key: value}
    with pytest.raises(pydantic.ValidationError) as caught:
        AccessModel.model_validate(whole)
    assert said in str(caught.value)
