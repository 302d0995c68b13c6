"""Alembic's folder: `versions/` has the order, the numbered SQL files beside it have the steps."""
