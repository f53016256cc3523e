"""The HTTP server: an API in the shapes of the Python objects, and a page to edit on."""
