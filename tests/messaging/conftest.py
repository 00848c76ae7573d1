"""A running service for every test that asks for ``topics``."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio
from tests.support.topics.messaging import Topics, serving


@pytest_asyncio.fixture
async def topics() -> AsyncIterator[Topics]:
    async with serving() as running:
        yield running
