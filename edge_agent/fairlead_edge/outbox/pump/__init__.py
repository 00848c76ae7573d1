"""Which batch goes up next, and what an answer means.

pump ──▶ stream (one priority) ──▶ endpoint_state (its state machine)
  └────▶ pace (bytes that may be unanswered)
"""
