"""A contract before it goes live: played against messages, compared with the one before, proposed from messages.

trial       what a job would make of messages: rows, dead letters by field, fields without a column, routes
comparison  what a new version means for a live table and for messages that fitted the old one
proposal    a contract to begin with, from messages
guess       the narrowest type that holds every value of a field

trial, proposal ─▶ guess        comparison        (all on rows: the job's own code judges)
"""
