"""Benchmarks with the peer in the same run: `python -m benchmarks NAME [--json] [--quick] [--runs N]`."""
