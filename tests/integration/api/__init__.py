"""The HTTP API over real sockets, a real PostgreSQL and a real Redis."""
