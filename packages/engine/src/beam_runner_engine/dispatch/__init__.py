"""Dispatch of bundles: runs a job's event loop, and decides which open bundle runs next and in which
slot, within a job and among jobs.
"""
