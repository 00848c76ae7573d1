"""Which batch goes up next, and what an answer means.

pump ──▶ stream (one priority: its states, its place in the log, the effects it asks for)
  └────▶ pace (bytes that may be unanswered; shares of the line)
"""
