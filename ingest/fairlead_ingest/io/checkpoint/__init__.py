"""What lies in a checkpoint: Spark's own log of batches, and our notes beside it.

spark_checkpoint   which query it is, where each batch ends
checkpoint_mirror  its copy in an object store, for a start on another machine
unread_notes       why messages that a batch was promised did not come, left by its tasks for its commit
batch_times        how long a batch took, left by its commit for the next one's planning
"""
