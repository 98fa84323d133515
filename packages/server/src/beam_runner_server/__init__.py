"""The job server as a program: its command line, what it is made of, and what it lives for."""
