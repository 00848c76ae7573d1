"""What receipts are given from: tables beside the logs, and the search in all of them.

names        what messages are called, by where they stand; kept from their acceptance
departures   the outcome of messages that left their queue
reached      how far tables have read each topic, as the hub said last
whereabouts  one message, found by its id: in the logs, in these tables, in the dead letters
"""
