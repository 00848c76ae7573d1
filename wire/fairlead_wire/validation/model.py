"""The base of what people write in the cluster: settings of hub, messaging and ingest, and custom resources.

pydantic, strict (a number in quotes is no number), frozen, unknown keys refused.  The agent never imports this module:
what the device reads are msgspec structs, for their memory.
"""

from __future__ import annotations

from typing import Annotated

import pydantic

from fairlead_wire.validation import listen_address


class Model(pydantic.BaseModel):
    """Values only: a document that was read, with its defaults filled in."""

    model_config = pydantic.ConfigDict(
        strict=True, frozen=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True
    )


def _listen_address(text: str) -> str:
    listen_address.parse(text)
    return text


ListenAddress = Annotated[str, pydantic.AfterValidator(_listen_address)]
"""``host:port``; IPv6 in brackets."""
