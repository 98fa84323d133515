"""Journals: the committed entries of each job, with snapshots, stored so that they survive the server."""
