"""The committed entries of each job, stored so that they survive the server: entries, snapshots, epochs."""
