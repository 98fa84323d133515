"""The job server as a program: its command line, its components, and the conditions for its exit."""
