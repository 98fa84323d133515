"""What Spark itself does for tables and streams, on the server."""
