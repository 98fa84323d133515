"""The scheduler: decides when which stage processes which data. Events go in, commands come out."""
