"""Worker processes of this machine: forked warm, watched, and surely gone at the end. Knows nothing of Spark."""
