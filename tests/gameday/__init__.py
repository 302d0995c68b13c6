"""The game day: real faults, real alerts, and the runbook's own commands."""
