"""Records with the content of the pages, and the templates that render the records as HTML."""
