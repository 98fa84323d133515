"""How elements come together by key and window."""
