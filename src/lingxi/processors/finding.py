"""Finds the processors of users: entry points of the group `lingxi.processors`, and the modules that `LINGXI_PROCESSORS` names.

    [project.entry-points."lingxi.processors"]
    thumbs = "studio.processors"            # every Processor in the module …
    colours = "studio.colours:COLOURS"      # … or this one

Whatever is wrong with one of them stops the start with one sentence: a deployment that half works is worse than none.
"""

import inspect
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.metadata import entry_points
from operator import attrgetter
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode

from lingxi.names import GROUPS, PRIORITIES, QUEUES, physical_queue
from lingxi.processors.contract import Processor
from lingxi.processors.runner import is_async

ENTRY_POINTS: Final = "lingxi.processors"
_WORD = r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*"
QUEUE_NAME: Final = re.compile(rf"{_WORD}:{_WORD}")
_GROUP = re.compile(_WORD)
MAX_NAME_CHARACTERS: Final = 60
_LEAST_MEMORY_BYTES = 128 << 20  # an interpreter with the contract in it takes some 100 MB of address space
_MOST_ATTEMPTS = 1000


class ProcessorsError(Exception):
    """A processor cannot be served; the message is one sentence that names it and says why."""


@dataclass(frozen=True, slots=True)
class Found:
    """A processor, and where it was found."""

    processor: Processor[Any]
    source: str

    @property
    def group(self) -> str:
        """The group that its queue joins: the declared one, else its domain."""
        return self.processor.group or self.processor.name.partition(":")[0]


@lru_cache(maxsize=8)
def find_processors(modules: tuple[str, ...] = ()) -> tuple[Found, ...]:
    """Those of installed packages, then those of `modules`; ProcessorsError. Their modules are imported here, once."""
    found: dict[str, Found] = {}
    physical = {physical_queue(name): name for name in QUEUES}
    for one in [*_of_entry_points(), *_of_modules(modules)]:
        processor = one.processor
        if why := whats_wrong(processor):
            raise ProcessorsError(f"{one.source}: {why}.")
        if processor.name in QUEUES:
            raise ProcessorsError(f"{one.source}: the name {processor.name} is one of Lingxi's own.")
        if (other := found.get(processor.name)) is not None:
            if other.processor is processor:
                continue
            raise ProcessorsError(
                f"{one.source}: the name {processor.name} is taken by the processor of {other.source}."
            )
        if (like := physical.setdefault(physical_queue(processor.name), processor.name)) != processor.name:
            raise ProcessorsError(
                f"{one.source}: the name {processor.name} cannot be told from {like} in Redis."
            )
        found[processor.name] = one
    return tuple(found.values())


def groups_with(found: Iterable[Found]) -> dict[str, tuple[str, ...]]:
    """All groups with their queues: Lingxi's own first."""
    groups = dict(GROUPS)
    for one in found:
        groups[one.group] = (*groups.get(one.group, ()), one.processor.name)
    return groups


def _of_entry_points() -> list[Found]:
    found = []
    for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda point: (point.name, point.value)):
        package = point.dist.name if point.dist is not None else "a package"
        source = f"The entry point {point.name} of {package}"
        found += _processors_in(point.value, source)
    return found


def _of_modules(modules: Iterable[str]) -> list[Found]:
    return [one for module in modules for one in _processors_in(module, f"LINGXI_PROCESSORS {module}")]


def _processors_in(reference: str, source: str) -> list[Found]:
    """`package.module` (all in it) or `package.module:NAME`."""
    name, _, path = reference.partition(":")
    try:
        module = import_module(name.strip())
        value = attrgetter(path.strip())(module) if path else module
    except (Exception, SystemExit) as error:  # a module that is a program may end itself
        what = f"{type(error).__name__}: {error}".strip(": ")
        raise ProcessorsError(f"{source} cannot be imported ({' '.join(what.split())[:300]}).") from error
    if isinstance(value, Processor):
        return [Found(value, source)]
    members: Mapping[str, Any] = vars(value) if inspect.ismodule(value) else {}
    here = {id(one): one for one in members.values() if isinstance(one, Processor)}
    if not here:
        raise ProcessorsError(f"{source} holds no Processor.")
    return [Found(one, source) for one in here.values()]


def whats_wrong(processor: Processor[Any]) -> str | None:
    """Why this cannot be served, as the end of a sentence; None when it can."""
    name = processor.name
    if not isinstance(name, str) or not QUEUE_NAME.fullmatch(name) or len(name) > MAX_NAME_CHARACTERS:
        return (
            f"{name!r} is no name of a processor: <domain>:<verb> in lower-case letters, digits and '-', "
            f"at most {MAX_NAME_CHARACTERS} characters"
        )
    if processor.group is not None and not _GROUP.fullmatch(processor.group):
        return (
            f"{name} declares the group {processor.group!r}, which is not lower-case letters, digits and '-'"
        )
    return _wrong_models(processor) or _wrong_run(processor) or _wrong_limit(processor)


def _wrong_models(processor: Processor[Any]) -> str | None:
    models = {"input_model": processor.input_model, "result_model": processor.result_model}
    modes: dict[str, JsonSchemaMode] = {"input_model": "validation", "result_model": "serialization"}
    for which, model in models.items():
        if model is None and which == "result_model":
            continue
        if not (isinstance(model, type) and issubclass(model, BaseModel)):
            return f"the {which} of {processor.name} is no pydantic model"
        try:
            model.model_json_schema(by_alias=True, mode=modes[which])
        except Exception as error:  # a name that is not there, or a type that JSON cannot carry
            why = " ".join(str(error).split()).partition(" For further")[0][:200].rstrip(".")
            return f"the {which} of {processor.name} cannot be shown as a JSON schema ({why})"
    return None


def _wrong_run(processor: Processor[Any]) -> str | None:
    name, run = processor.name, processor.run
    if run is None:
        return None
    if not callable(run):
        return f"the run of {name} is no function"
    try:
        inspect.signature(run).bind(object(), object())
    except TypeError:
        return f"the run of {name} must take (context, input), not {inspect.signature(run)}"
    except ValueError:  # a builtin that tells nothing about itself
        return f"the run of {name} is no function of Python"
    if inspect.isgeneratorfunction(run) or inspect.isasyncgenfunction(run):
        return f"the run of {name} is a generator: it must return its result"
    if not is_async(run):
        for what in (run, processor.input_model, processor.result_model):
            if what is not None and not _importable(what):
                return f"{name} runs in a child process, which cannot import {_called(what)}: put it at the top of a module"
    return None


def _wrong_limit(processor: Processor[Any]) -> str | None:
    limits = {
        "max_attempts": (processor.max_attempts, 1, _MOST_ATTEMPTS),
        "time_limit_seconds": (processor.time_limit_seconds, 0.001, 7 * 24 * 3600),
        "concurrency": (processor.concurrency, 1, 10_000),
        "backoff_seconds": (processor.backoff_seconds, 0, 24 * 3600),
        "memory_bytes": (processor.memory_bytes, _LEAST_MEMORY_BYTES, 1 << 50),
        "scratch_bytes": (processor.scratch_bytes, 1, 1 << 50),
    }
    for limit, (value, least, most) in limits.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            return f"{limit} of {processor.name} must be a number from {least} to {most}, not {value!r}"
    if processor.priority not in PRIORITIES:
        return (
            f"priority of {processor.name} must be one of {', '.join(PRIORITIES)}, not {processor.priority!r}"
        )
    return None


def _importable(what: Any) -> bool:
    try:
        return attrgetter(what.__qualname__)(import_module(what.__module__)) is what
    except (AttributeError, ImportError):
        return False


def _called(what: Any) -> str:
    return str(getattr(what, "__qualname__", what))
