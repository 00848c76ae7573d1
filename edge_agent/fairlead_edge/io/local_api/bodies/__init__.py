"""What the local API reads and answers, as types.

Requests are read by these.  Answers are made from other parts of the agent; a change of one is a change of its struct
here, for tests read real answers with them.
"""
