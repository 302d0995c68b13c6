"""Parts of the HTTP layer that need no server."""
