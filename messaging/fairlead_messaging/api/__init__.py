"""What server and clients share: message ids, the shapes of answers, error codes."""
