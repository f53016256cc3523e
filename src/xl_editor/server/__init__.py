"""The HTTP server: an API in the shapes of the Python objects."""
