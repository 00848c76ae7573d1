"""The route language: which messages go where.

    FROM /messages/* WHERE as_number(temp) > 20 AND $body.alarm INTO $upstream

    text ─tokens→ tokens ─parser→ nodes ─evaluate→ closures over a message (operators, functions)
                             ├─ source, sink   └─ typerules, hints: what is refused, and what was meant
                             └─ jsonpath       explain: why a result is undefined

A language of its own, with static types and three truth values, as Azure IoT Edge's hub speaks it (seed: route priority
and time-to-live); accidents of the original are not copied.  `compiler` has the two entries, `compile_condition` and
`compile_route`; both raise `errors.Invalid` with exact positions.  A condition is compiled once and run many times.
"""
