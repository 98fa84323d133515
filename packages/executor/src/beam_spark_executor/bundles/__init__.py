"""What runs inside Spark's Python workers: one bundle of one stage at a time."""
