"""Reports on a job: metrics, wait reasons, failures, and the history of a bundle."""
