"""Quiet running for a while: no condition of an alert, and nothing that grows."""
