"""The server's side of a running job: sections become Spark jobs, replies become committed results."""
