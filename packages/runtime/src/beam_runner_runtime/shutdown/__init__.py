"""Tables about shutdown and failures: states of processes and jobs, transitions, time limits, and
the component that detects each failure.
"""
