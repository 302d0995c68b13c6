"""Bad networks, slow readers, servers that go away: the client still ends with the server's own state."""

import asyncio
import random

from lingxi.conformance.connection import ConnectionLost, StreamConnection
from lingxi.conformance.model import Model
from lingxi.conformance.proxy import RandomCuts
from lingxi.conformance.rule import Bench, Check, NotTried, Rule
from lingxi.conformance.work import mixed, staggered

_CLIENTS = 6


async def while_items_change(bench: Bench, check: Check) -> None:
    """Clients that lose their connection after a few frames, again and again, while the task runs."""
    task = await bench.server.submit(staggered(60, over_ms=3_000) + mixed(60))

    async def client(seed: int) -> None:
        rng, model, last_id, connections = random.Random(seed), Model(), "0", 0
        async with asyncio.timeout(90):
            while not model.ended:
                connections += 1
                async with await bench.server.events(task["id"], last_id) as stream:
                    for _ in range(rng.choice((1, 2, 3, 10, 50))):
                        if (frame := await stream.next(30)) is None:
                            break
                        model.apply(frame)
                    last_id = stream.last_id or last_id
        check(connections > 3, f"only {connections} connections were needed: nothing was tried")
        check.equal(model.resets, 0, "the number of resets")
        await bench.same_as_asked(check, task["id"], model, f"client {seed}")

    await asyncio.gather(*(client(seed) for seed in range(_CLIENTS)))


async def random_cuts(bench: Bench, check: Check) -> None:
    if not bench.server.url.startswith("http://"):
        raise NotTried("the proxy of this suite speaks plain HTTP only")
    task = await bench.server.submit(staggered(100, over_ms=3_000) + mixed(50))
    async with RandomCuts(bench.server.url, shortest=200, longest=6_000, seed=11) as proxy:
        path = bench.server.events_url(task["id"]).removeprefix(bench.server.url)

        async def client(number: int) -> None:
            followed = await bench.server.follow(task["id"], Model(), "0", url=proxy.url + path)
            check.equal(followed.model.resets, 0, "the number of resets")
            await bench.same_as_asked(check, task["id"], followed.model, f"client {number}")

        await asyncio.gather(*(client(number) for number in range(_CLIENTS)))
        check(proxy.cuts >= _CLIENTS, f"only {proxy.cuts} connections were cut")


async def stalled_reader(bench: Bench, check: Check) -> None:
    """A reader with a small window that takes nothing while 12 MB of results pass by; the others are not kept
    waiting.
    """
    inputs = [{"durationMs": 500 + 5 * index, "resultBytes": 40_000} for index in range(300)]
    task = await bench.server.submit(inputs)
    async with await bench.server.events(task["id"], "0", receive_buffer_bytes=4096) as stalled:
        quick = await bench.server.follow(task["id"], Model(), "0")
        check.equal(quick.lost, 0, "connections lost by the quick reader")
        await bench.same_as_asked(check, task["id"], quick.model, "the quick reader")
        model = Model()
        stalled.widen()
        last_id = await _drain(stalled, model)
    if not model.ended:  # a server may have given the slow connection up; then it resumes
        await bench.server.follow(task["id"], model, last_id)
    check.equal(model.resets, 0, "the number of resets")
    await bench.same_as_asked(check, task["id"], model, "the stalled reader")


async def _drain(stream: StreamConnection, model: Model) -> str:
    try:
        while (frame := await stream.next(30)) is not None:
            model.apply(frame)
    except (ConnectionLost, OSError):
        pass
    return stream.last_id or "0"


async def restart(bench: Bench, check: Check) -> None:
    if bench.restart_command is None:
        raise NotTried("needs --restart-command")
    task = await bench.server.submit(staggered(40, over_ms=8_000))
    clients = [asyncio.create_task(bench.server.follow(task["id"], Model(), "0")) for _ in range(_CLIENTS)]
    await asyncio.sleep(1)
    process = await asyncio.create_subprocess_shell(bench.restart_command, stdout=asyncio.subprocess.DEVNULL)
    check.equal(await process.wait(), 0, "the restart command's exit code")
    for number, followed in enumerate(await asyncio.gather(*clients)):
        check(followed.connections > 1, "a client saw no restart")
        check.equal(followed.model.resets, 0, "the number of resets")
        check(followed.closings > 0 or followed.lost > 0, "a client was neither told nor cut off")
        await bench.same_as_asked(check, task["id"], followed.model, f"client {number}")


RULES = (
    Rule("while-items-change", "Connections lost again and again while items change", while_items_change),
    Rule("random-cuts", "Behind a proxy that cuts at random bytes", random_cuts),
    Rule(
        "stalled-reader",
        "A reader that stalls resumes and is right; others do not wait for it",
        stalled_reader,
    ),
    Rule("restart", "The server restarts, clients come back", restart, alone=True),
)
