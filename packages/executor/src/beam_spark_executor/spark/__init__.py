"""Spark side of a server: the Spark context with its settings, its Java process and its Python
workers, and the Spark jobs that run bundles.
"""
