"""Code of worker processes: the connection to the server, and the execution of bundles and
sections. A section is several stages that run together as one Spark job.
"""
