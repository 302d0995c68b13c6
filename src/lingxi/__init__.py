"""Lingxi (灵犀): batches of media work, seen through to a truthful end."""

__version__ = "0.1.0"
