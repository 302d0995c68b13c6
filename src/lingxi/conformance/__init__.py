"""A conformance suite for the event stream: it talks HTTP only, to any server that implements the contract."""
