"""The state of each key that a node does not hold as it should.

    unsynced_keys ─▶ key_state     one record a key, and the moves it may make (``TRANSITIONS``)
          ├────────▶ work_queue    which key is next
          └────────▶ timers        when a key is looked at again
                     backoff       after how long one that failed is tried again

docs/explanation/delivery.md draws the states.
"""
