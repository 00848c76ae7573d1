"""A job whose tasks run on other machines: what must be true there, and what is said where it is not.

    connect_address  how the address of a Spark Connect server is written
    task_report      what a task found on its machine, and what that means for the job

``io.spark.executor_probe`` runs the tasks; ``io.spark.connect`` talks to the server.
"""
