"""Messages from the cloud for inputs of modules: which came, and their state.

taken (with the message, in one transaction) ─ acknowledged | dead letter (with that, too) ─ forgotten an hour after it
would have expired.  For so long the same message is not put into a queue a second time.
"""
