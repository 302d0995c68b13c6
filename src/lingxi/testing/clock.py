"""The time that an attempt sees: it stands still until the test moves it."""


class Clock:
    """Seconds, for a context's deadline. `advance` may be called while the processor runs, e.g. from `on_progress`."""

    def __init__(self) -> None:
        self._now = 0.0

    def __call__(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """So much time passes at once."""
        if seconds < 0:
            raise ValueError("time does not run backwards")
        self._now += seconds
