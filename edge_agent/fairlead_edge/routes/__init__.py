"""The route language: which messages go where.

    FROM /messages/* WHERE as_number(temp) > 20 AND $body.alarm INTO $upstream

    text ─tokens→ tokens ─parser→ tree ─compiler→ closures over a message (operators, functions)
                            └─ endpoints           └─ values: static types, and what may be combined

The language is that of Azure IoT Edge's hub, with static types and three-valued logic (seed: route priority and
time-to-live); quirks of the original are not copied.  The entry points are `compiler.compile_condition` and
`compile_route`; both raise `errors.Invalid` with exact positions.  A condition is compiled once and run many times.
`explain` says why a result is undefined.
"""
