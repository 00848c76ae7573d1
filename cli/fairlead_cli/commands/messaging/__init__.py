"""Commands that ask the messaging service, and ``dump``, which reads the store of a stopped service."""
