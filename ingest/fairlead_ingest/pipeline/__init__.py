"""Decisions about a running pipeline: what to do after a failure, what to copy of its checkpoint, what to publish.

    failures         wait, search the batch for a failing message by halving it, or stop
    checkpoint_copy  which files of a checkpoint are copied to an object store
    events           events about commits and stops on the system topic; when to log a long batch

``io.pipeline`` runs the Spark query; ``app`` runs the pipelines of a job.
"""
