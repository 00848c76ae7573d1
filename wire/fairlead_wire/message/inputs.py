"""Down: messages for inputs of modules, and what became of them."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from fairlead_wire.message.header import Encoding, Header, Id

INPUT_BYTES_MAX = 256 * 1024
"""Of one message as it is stored: body and properties, as of those that modules publish."""
INPUT_TTL_SECONDS_MAX = 7 * 24 * 3600
INPUT_STATES_MAX = 64
"""Messages that one ``where`` frame asks for."""
INPUT_WINDOW = 16
"""``input`` frames of one session that may be unanswered at once; one for each input of a module."""
INPUT_NAME_CHARS_MAX = 128
INPUT_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*\Z"
"""Of a module, and of its input."""

InputId = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{32}\Z")]
InputName = Annotated[str, msgspec.Meta(pattern=INPUT_NAME, max_length=INPUT_NAME_CHARS_MAX)]
InputState = Literal["delivered", "consumed", "expired", "evicted", "dead_lettered"]
"""``delivered``: durable at the edge; ``consumed``: acknowledged by its module."""


class Input(Header, frozen=True, kw_only=True, tag="input"):
    """Hub: put this message into the queue of a module's input, once for each ``message``.

    Content: the message as the edge stores those that modules publish, a JSON object.  Only to edges whose hello says
    ``inputs``.
    """

    id: Id
    message: InputId
    module: InputName
    input: InputName
    ttl_seconds: Annotated[float, msgspec.Meta(gt=0, le=INPUT_TTL_SECONDS_MAX)]
    """What is left of its time to live, at this moment."""
    encoding: Encoding = ""


class AskInputs(Header, frozen=True, kw_only=True, tag="where"):
    """Hub: what became of these?"""

    id: Id
    messages: Annotated[list[InputId], msgspec.Meta(min_length=1, max_length=INPUT_STATES_MAX)]


class InputStates(Header, frozen=True, kw_only=True, tag="states"):
    """Edge: the answer (content: JSON array of ``InputReached``); one that is not named is not known (any more)."""

    parent_id: Id = msgspec.field(name="parentID")


class InputReached(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What became of one message."""

    message: InputId
    state: InputState
