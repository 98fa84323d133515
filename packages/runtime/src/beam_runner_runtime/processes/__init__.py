"""Worker processes of this machine: forked with preloaded modules, watched, and always removed at
shutdown; independent of Spark.
"""
