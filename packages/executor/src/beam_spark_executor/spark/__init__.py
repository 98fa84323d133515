"""The one long-lived Spark session of a server: its settings, its Java process, its Python workers."""
