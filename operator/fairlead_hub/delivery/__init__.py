"""One node: what it holds, what is queued, in flight, waiting to be tried again, or parked."""
