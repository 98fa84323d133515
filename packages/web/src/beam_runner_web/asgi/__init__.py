"""Request handlers for JSON, live updates and the login page, and the access control of all requests."""
