"""One pipeline from topics to a table, while it runs: what to do after a failure, and what is reported of it.

    failures         wait, search for the message that fails the batch by halving it, or stop
    checkpoint_copy  which files of a checkpoint outlive its machine
    events           what is published of commits and stops on the system topic; when a long batch is logged

``io.pipeline`` runs the Spark query; ``app`` keeps the pipelines of a job going.
"""
