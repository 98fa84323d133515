"""Server side of Spark's tables and streams."""
