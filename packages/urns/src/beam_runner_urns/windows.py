"""URNs of the model's window functions. Every other window function needs an SDK."""

from __future__ import annotations

GLOBAL_WINDOWS = "beam:window_fn:global_windows:v1"
FIXED_WINDOWS = "beam:window_fn:fixed_windows:v1"
SLIDING_WINDOWS = "beam:window_fn:sliding_windows:v1"
SESSION_WINDOWS = "beam:window_fn:session_windows:v1"
