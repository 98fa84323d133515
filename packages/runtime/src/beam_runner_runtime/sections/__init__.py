"""Sections: several stages that run together as one Spark job, with Spark's shuffle between them."""
