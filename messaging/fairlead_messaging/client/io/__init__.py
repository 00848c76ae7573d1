"""Acts: the two clients, and what is built on them for both.

async_client ─aiohttp→ service        sync_client ─connections→ service
  ↑                                     ↑
  └── buffered_publisher, transaction_context ──┘
"""
