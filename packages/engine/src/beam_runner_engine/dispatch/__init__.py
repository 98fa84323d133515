"""How a job is driven: rounds of what happens and what is done then, and which open bundle runs next and where, of
one job and among jobs.
"""
