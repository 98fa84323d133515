"""The value types that both halves of the engine share: times, windows, panes, triggers,
strategies, facts.
"""
