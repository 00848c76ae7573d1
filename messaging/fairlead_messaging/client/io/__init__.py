"""The clients with and without asyncio, and the publishers and transaction contexts built on them.

async_client ─aiohttp→ service        sync_client ─connections→ service
  ↑                                     ↑
  └── buffered_publisher, transaction_context ──┘
"""
