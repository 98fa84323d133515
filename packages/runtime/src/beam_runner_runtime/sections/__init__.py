"""Sections: stages that run as one bundle in many parallel tasks, with a shuffle between them."""
