"""Content of the pages as records, and templates that render the records as HTML."""
