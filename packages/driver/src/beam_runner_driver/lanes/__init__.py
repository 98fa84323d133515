"""Assignment of bundles to lanes (worker processes that run bundles one after the other), and of
cluster slots to lanes.
"""
