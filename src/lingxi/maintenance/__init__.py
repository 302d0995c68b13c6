"""Loops that keep the truth: the sweep that finds and re-queues what was lost."""
