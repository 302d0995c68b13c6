"""Test a processor without our servers: a real PostgreSQL, a storage folder, a clock, and crashes at named points.

    from lingxi.testing import open_bench

    with open_bench(tmp_path) as bench:
        bench.put("in.txt", b"hello")
        ran = bench.run(PROCESSOR, {"object": "in.txt"})
        assert ran.state == "succeeded"
        assert bench.crash(PROCESSOR, {"object": "in.txt"}, at="after_commit").result == ran.result
        assert bench.run_twice(PROCESSOR, {"object": "in.txt"}).result == ran.result

Items are submitted, claimed and finished by the statements that the product uses, so a fence is a fence here. The database is
`DATABASE_URL`, else a PostgreSQL from the wheels in `.lingxi/testing`; each bench has a fresh one of its own.
"""

from lingxi.testing.bench import POINTS, Bench, open_bench
from lingxi.testing.clock import Clock
from lingxi.testing.ran import Ran, Said

__all__ = ["POINTS", "Bench", "Clock", "Ran", "Said", "open_bench"]
