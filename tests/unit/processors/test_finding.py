"""Users' processors: found, or refused with one sentence that says which and why."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lingxi.names import QUEUES
from lingxi.processors.contract import Processor, ProcessorInput
from lingxi.processors.finding import ProcessorsError, find_processors, groups_with, whats_wrong
from lingxi.settings import SettingsError, load_settings

HEAD = """
from lingxi.processors.contract import Processor, ProcessorInput
class Input(ProcessorInput):
    name: str = ""
async def run(context, given):
    return None
def sync(context, given):
    return None
"""
ODD = (
    "from collections.abc import Callable\nCall = Callable[[], None]\nclass Odd(ProcessorInput):\n    x: %s\n"
)
Write = Callable[[str, str], str]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """`write(module, text)`: a module that can be imported; its name."""
    monkeypatch.syspath_prepend(str(tmp_path))
    written = []

    def write(module: str, text: str) -> str:
        (tmp_path / f"{module}.py").write_text(HEAD + text)
        written.append(module)
        return module

    yield write
    for module in written:
        sys.modules.pop(module, None)
    find_processors.cache_clear()


def names(*modules: str) -> list[str]:
    return [found.processor.name for found in find_processors(modules)]


def test_all_of_a_module_or_one_of_it(write: Write) -> None:
    module = write(
        "found_two", "A = Processor('x:one', Input, run)\nB = Processor('x:two', Input, sync)\nAGAIN = A\n"
    )
    assert names(module) == ["x:one", "x:two"]
    assert names(f"{module}:B") == ["x:two"]
    assert names(module, f"{module}:A") == ["x:one", "x:two"], "the same one twice is one"


def test_queues_join_the_domains_group_or_the_declared_one(write: Write) -> None:
    text = "A = Processor('x:one', Input, run)\nB = Processor('y:two', Input, run, group='x')\n"
    text += "C = Processor('media:mine', Input, run)"
    groups = groups_with(find_processors((write("found_groups", text),)))
    assert groups["x"] == ("x:one", "y:two")
    assert groups["media"] == ("media:verify", "media:probe", "media:mine")
    assert "y" not in groups


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("A = 5", "holds no Processor"),
        ("import nowhere", "cannot be imported (ModuleNotFoundError: No module named 'nowhere')"),
        ("raise RuntimeError('no licence')", "cannot be imported (RuntimeError: no licence)"),
        ("A = Processor('x:y', Input, run)\nB = Processor('x:y', Input, run)", "the name x:y is taken by the processor of"),
        ("A = Processor('media:verify', Input, run)", "the name media:verify is one of Lingxi's own"),
        ("A = Processor('media-verify:it', Input, run)\nB = Processor('media:verify-it', Input, run)", "cannot be told from"),
        ("A = Processor('Thumb', Input, run)", "'Thumb' is no name of a processor: <domain>:<verb>"),
        ("A = Processor('x:y', Input, lambda context: None)", "the run of x:y must take (context, input), not (context)"),
        ("A = Processor('x:y', dict, run)", "the input_model of x:y is no pydantic model"),
        ("raise SystemExit(0)", "cannot be imported (SystemExit: 0)"),
        (ODD % "'Nowhere'" + "A = Processor('x:y', Odd, run)", "JSON schema (`Odd` is not fully defined"),
        (ODD % "Call" + "A = Processor('x:y', Input, run, result_model=Odd)", "the result_model of x:y cannot be shown"),
        ("A = Processor('x:y', Input, run, result_model=int)", "the result_model of x:y is no pydantic model"),
        ("A = Processor('x:y', Input, lambda context, given: None)", "cannot import <lambda>: put it at the top of a module"),
        ("async def g(context, given):\n    yield 1\nA = Processor('x:y', Input, g)", "is a generator"),
        ("A = Processor('x:y', Input, run, max_attempts=0)", "max_attempts of x:y must be a number from 1 to"),
        ("A = Processor('x:y', Input, run, priority='urgent')", "priority of x:y must be one of live, normal, bulk"),
        ("A = Processor('x:y', Input, run, group='A B')", "declares the group 'A B'"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_sentence(write: Write, text: str, why: str) -> None:
    module = write("found_wrong", text)
    with pytest.raises(ProcessorsError) as refused:
        find_processors((module,))
    sentence = str(refused.value)
    assert why in sentence
    assert sentence.startswith(f"LINGXI_PROCESSORS {module}")
    assert sentence.endswith((".", "?"))
    assert "\n" not in sentence


def test_settings_know_their_queues(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    module = write(
        "found_queues", "A = Processor('studio:crop', Input, run)\nB = Processor('studio:sign', Input, run)"
    )
    monkeypatch.setenv("LINGXI_PROCESSORS", module)
    assert load_settings().deployed_queues == (*QUEUES, "studio:crop", "studio:sign")
    monkeypatch.setenv("QUEUE", "studio,demo:drill")
    monkeypatch.setenv("LINGXI_CONCURRENCY", "studio:crop=7")
    settings = load_settings()
    assert settings.served_queues == ("studio:crop", "studio:sign", "demo:drill")
    assert settings.concurrency == {"studio:crop": 7}
    monkeypatch.setenv(
        "LINGXI_PROCESSORS", write("found_elsewhere", "A = Processor('studio:crop', Input, None)")
    )
    settings = load_settings()
    assert (settings.deployed_queues[-1], settings.served_queues) == ("studio:crop", ("demo:drill",)), (
        "a worker of ours does not serve what runs elsewhere, and nobody waits until it does"
    )
    monkeypatch.setenv("LINGXI_PROCESSORS", module)
    monkeypatch.setenv("LINGXI_QUEUES", "demo,studio:sign")
    monkeypatch.setenv("LINGXI_CONCURRENCY", "")
    assert load_settings().served_queues == ("studio:sign", "demo:drill")
    monkeypatch.setenv("QUEUE", "studio:crop")
    with pytest.raises(
        SettingsError, match=r"'studio:crop' is no queue or group of this deployment; known are: .*studio"
    ):
        load_settings()
    monkeypatch.setenv("LINGXI_PROCESSORS", "nowhere.at.all")
    with pytest.raises(SettingsError, match=r"^LINGXI_PROCESSORS nowhere\.at\.all cannot be imported"):
        load_settings()


class _Local(ProcessorInput):
    pass


def test_an_object_with_an_async_call_runs_on_the_loop() -> None:
    class Made:
        async def __call__(self, context: Any, given: Any) -> None:
            return None

    assert whats_wrong(Processor("x:y", _Local, Made())) is None
