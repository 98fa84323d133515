"""Job server as a program: its command line, its components, and its shutdown."""
