"""The contents of a checkpoint: Spark's own log of batches, and our notes beside it.

spark_checkpoint   the id of the query and where each batch ends
checkpoint_mirror  a copy of the checkpoint in an object store, for a start on another machine
batch_notes        why planned messages could not be read, from tasks to the commit; how long a batch took, from its
                   commit to the planning of the next batch
"""
