"""Programs that are killed with SIGKILL at each step, and continued by a new process."""
