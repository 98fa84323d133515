"""The scheduler: decides when which stage processes which data, told by events, answered in commands."""
