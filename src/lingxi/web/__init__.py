"""Small pages, rendered on the server: sign in with a token, the list of tasks, one task live. No build step."""
