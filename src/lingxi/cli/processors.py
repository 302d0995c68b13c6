"""`lingxi processors`: what this deployment can do. `lingxi new-processor`: a file to begin with, and its test."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from lingxi.cli.exits import not_possible, usage
from lingxi.cli.options import JsonOption
from lingxi.cli.output import Output

if TYPE_CHECKING:
    from lingxi.processors.contract import Processor


def register(app: typer.Typer) -> None:
    app.command("processors")(processors)
    app.command("new-processor")(new_processor)


def processors(as_json: JsonOption = False) -> None:
    """List the processors of this deployment: type, group, queue in Redis, input, and where each comes from."""
    from lingxi.bootstrap.common import make_registry
    from lingxi.imaging.children import DecoderConfig, Decoders
    from lingxi.processors.finding import find_processors
    from lingxi.settings import load_settings

    output = Output(as_json)
    settings = load_settings()
    nothing = cast(Any, None)  # nobody runs one here, so no server is needed
    registry = make_registry(settings, Decoders(DecoderConfig()), nothing, nothing)
    sources = {
        found.processor.name: found.source.removeprefix("The ").removeprefix("LINGXI_PROCESSORS ")
        for found in find_processors(settings.processor_modules)
    }
    groups = {queue: group for group, queues in settings.groups.items() for queue in queues}
    described = [
        _described(one, groups[one.name], sources.get(one.name, "lingxi")) for one in registry.processors()
    ]
    output.table(
        ("TYPE", "GROUP", "QUEUE", "FROM", "INPUT"),
        [[one["type"], one["group"], one["queue"], one["from"], _fields(one["input"])] for one in described],
    )
    output.result({"processors": described})


def _described(processor: Processor[Any], group: str, source: str) -> dict[str, Any]:
    from lingxi.names import physical_queue

    result = processor.result_model
    return {
        "type": processor.name,
        "group": group,
        "queue": physical_queue(processor.name),
        "from": source,
        "description": inspect.getdoc(processor.input_model),
        "input": processor.input_model.model_json_schema(by_alias=True),
        "result": None if result is None else result.model_json_schema(by_alias=True, mode="serialization"),
        "runsIn": _runs_in(processor),
        "maxAttempts": processor.max_attempts,
        "timeLimitSeconds": processor.time_limit_seconds,
        "concurrency": processor.concurrency,
        "memoryBytes": processor.memory_bytes,
        "scratchBytes": processor.scratch_bytes,
        "priority": processor.priority,
    }


def _runs_in(processor: Processor[Any]) -> str:
    from lingxi.processors.runner import is_async

    if processor.run is None:
        return "elsewhere"
    return "worker" if is_async(processor.run) else "child"


def _fields(schema: dict[str, Any]) -> str:
    """`object, expectedSha256?`: a question mark on what may be left out."""
    required = schema.get("required", ())
    return ", ".join(name if name in required else f"{name}?" for name in schema.get("properties", {}))


def new_processor(
    name: Annotated[str, typer.Argument(help="Its type, <domain>:<verb>, e.g. studio:watermark.")],
    folder: Annotated[Path, typer.Option(help="Where to write the two files.")] = Path(),
) -> None:
    """Write a processor that works, and its test: two files to begin with."""
    from lingxi.names import QUEUES
    from lingxi.processors.finding import MAX_NAME_CHARACTERS, QUEUE_NAME

    if not QUEUE_NAME.fullmatch(name) or len(name) > MAX_NAME_CHARACTERS:
        raise usage(
            f"{name!r} is no name of a processor: <domain>:<verb> in lower-case letters, digits and '-', e.g. studio:watermark"
        )
    if name in QUEUES:
        raise usage(f"{name} is one of Lingxi's own")
    module = name.replace(":", "_").replace("-", "_")
    paths = {folder / f"{module}.py": "processor.txt", folder / f"test_{module}.py": "test.txt"}
    for path in paths:
        if path.exists():
            raise not_possible(f"{path} exists")
    constant = module.upper()
    folder.mkdir(parents=True, exist_ok=True)
    for path, template in paths.items():
        text = (Path(__file__).with_name("templates") / template).read_text("utf-8")
        path.write_text(
            text.replace("__NAME__", name).replace("__MODULE__", module).replace("__CONSTANT__", constant)
        )
    output = Output(as_json=False)
    for path in paths:
        output.say(f"wrote {path}")
    output.say()
    output.say(f"Test it:    python -m pytest {folder / f'test_{module}.py'}")
    output.say(f"Serve it:   PYTHONPATH=$PYTHONPATH:{folder} LINGXI_PROCESSORS={module} lingxi up")
    task = f'{{"type": "{name}", "items": [{{"input": {{"object": "…", "into": "…"}}}}]}}'
    output.say(f"Submit to:  echo '{task}' | lingxi submit - --watch")
