"""Where data and state of a job lie: rows inline or in files, and state as logs of segments."""
