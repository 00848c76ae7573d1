"""Commands that ask the messaging service, and ``dump``, which reads the store of one that is stopped."""
