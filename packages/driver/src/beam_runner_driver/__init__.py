"""Server side of a running job: runs its bundles on lanes, and commits their results. A lane is a
worker process that runs the job's bundles one after the other.
"""
