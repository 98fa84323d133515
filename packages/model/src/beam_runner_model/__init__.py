"""Records that the layers of the runner exchange: event time, windows, panes, triggers, stages,
encoded data and job reports.
"""
