"""Iceberg tables: the sink and bounded reads."""
