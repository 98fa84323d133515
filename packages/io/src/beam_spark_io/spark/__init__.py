"""Server side of reads and writes of Spark tables and streams."""
