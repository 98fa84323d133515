"""Code that the transforms for Delta and Iceberg tables share."""
