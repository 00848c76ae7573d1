"""A running service for every test that asks for ``topics``, its core without HTTP for those that ask for ``core``."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.support.topics.messaging import Topics, serving
from tests.support.topics.messaging_core import Core


@pytest_asyncio.fixture
async def topics() -> AsyncIterator[Topics]:
    """With the empty topic ``t``."""
    async with serving() as running:
        await running.create("t")
        yield running


@pytest.fixture
def core() -> Core:
    """With the empty topic ``t``."""
    made = Core()
    made.create("t")
    return made
