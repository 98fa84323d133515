"""The server's side of a running job: it has bundles run on lanes, and replies become committed results."""
