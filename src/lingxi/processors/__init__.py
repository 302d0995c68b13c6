"""The work of each queue. Who writes a processor of their own begins with `contract.py` and `demo_drill.py`."""
