"""What has been committed of each job, kept so that it survives the server: entries, snapshots, epochs."""
