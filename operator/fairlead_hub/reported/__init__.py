"""Status of objects that nodes report: what of it is believed, and what is written of it.

    report ─judge─▶ is it placed there, by a rule that allows it; the same object; within bounds ─▶ apply ─▶ API server
    rules ─rules_of_node─▶ what each node gets to know of them

Pure; ``io.cluster.status_reports`` writes.
"""
