"""Data about jobs from the job server: snapshots, states of steps, histories of stages, and stacks of threads."""
