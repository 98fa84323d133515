"""What is known of a job: snapshots of its server, figures of its metrics, steps, stages and stacks."""
