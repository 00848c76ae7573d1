"""Which batch is sent next, and what follows from an answer.

pump ──▶ stream (one priority: its states, its place in the log, the effects it asks for)
  └────▶ pace (bytes that may be unanswered; shares of the link)
"""
