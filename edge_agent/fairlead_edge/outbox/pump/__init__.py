"""Which batch goes up next, and what an answer means.

pump ──▶ stream (one priority) ──▶ endpoint_state (its states, as a table)
  ├────▶ pace (bytes that may be unanswered)
  ├────▶ effects (what the driver is to do)
  └────▶ policy (when what was not taken goes again)
"""
