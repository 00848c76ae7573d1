"""Sends: connections, the asyncio client and the synchronous one."""
