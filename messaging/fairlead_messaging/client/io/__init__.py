"""Acts: connections, the two clients, and what is built on them.

async_client ─aiohttp→ service        sync_client ─connections→ service
  ↑ async_buffered                      ↑ sync_buffered, bulk_client
  └──────────── transaction_context, for both ┘
"""
