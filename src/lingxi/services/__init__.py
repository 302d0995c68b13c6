"""What can be done to the state of Lingxi: one verb a file.

A service takes a connection with an open transaction and never commits: the caller does, once, at the edge.
"""
