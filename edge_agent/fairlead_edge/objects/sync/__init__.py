"""One session with the hub: which messages are legal, what is written, what is acknowledged.

events ──▶ session ──▶ effects
              ├─ chunks         updates that come in parts
              ├─ apply_queue    the work in its order, one batch at a time
              ├─ ack_tracker    an answer once a write is durable
              ├─ entries        what is held, packed for a comparison
              └─ status_frame   the agent's status, packed
"""
