"""Programs that are killed with SIGKILL at each step, and gone on with by a new process."""
