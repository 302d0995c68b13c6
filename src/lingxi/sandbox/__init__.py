"""Processes that may be killed: where hostile bytes meet C code. `host` is seen by the parent, `guest` runs in the child."""
