"""Transactions over topics: their messages become visible together or never.

    in progress ─commit→ committed
         ├─abort─────→ aborted ─┐
         └─deadline, operator→ invalid ─┴→ every row marked, so that readers need not know the pointer any more

    manager       the open ones, the order of commits, and conflicts: of two that changed a key only the first commits
    transaction   one record: its state, what it touched in each topic, and its deadline
    publishing    rows with the pointer; payloads that are stored first and published later; rollbacks
    visibility    the state of a row for a reader, and the first message that holds up a reader of committed messages
    listing       open and finished ones, for operators
    commands      what the writer can change, typed by the answers
    availability  the manager while it is available, and the reason when it is not

A record and the rows that it decides are written in one batch, so a reader needs only its snapshot, which has both.
"""
