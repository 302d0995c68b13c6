"""What the tests share: real servers, processes, a proxy that misbehaves on demand, and waiting for facts."""
