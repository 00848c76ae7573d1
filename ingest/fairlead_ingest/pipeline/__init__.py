"""One pipeline from topics to a table, while it runs: what to do after a failure, and what is reported of it.

    failures      wait, look for the message that fails the batch, or stop
    halving       the search for that message
    progress_log  when a batch that takes long is worth a line in the log
    checkpoint_copy  which files of a checkpoint outlive its machine
    events        what is published of commits and stops on the system topic

``io.pipeline`` runs the Spark query; ``app`` keeps the pipelines of a job going.
"""
