"""Pages: what they show, as records, and the templates that make HTML of them."""
