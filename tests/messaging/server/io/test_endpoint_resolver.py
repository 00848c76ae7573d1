"""Names are judged by what they mean at each connection."""

from __future__ import annotations

import pytest

from fairlead_messaging.server.io.push_performer import EndpointResolver


async def test_a_name_that_means_the_metadata_service_is_not_pushed_to() -> None:
    """Whatever it meant when the subscription was made; 2852039166 is 169.254.169.254 to a resolver."""
    resolver = EndpointResolver()
    with pytest.raises(OSError, match="link-local"):
        await resolver.resolve("2852039166", 80)
    assert [each["host"] for each in await resolver.resolve("127.0.0.1", 80)] == ["127.0.0.1"]
    await resolver.close()
