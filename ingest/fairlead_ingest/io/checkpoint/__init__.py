"""What lies in a checkpoint: Spark's own log of batches, and our notes beside it.

spark_checkpoint   which query it is, where each batch ends
checkpoint_mirror  its copy in an object store, for a start on another machine
batch_notes        why promised messages did not come, left by tasks for the commit; how long a batch took, left by its
                   commit for the next one's planning
"""
