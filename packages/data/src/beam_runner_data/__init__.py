"""Storage formats of encoded elements: shuffle rows, grouped columns, side-input indexes and state segments."""
