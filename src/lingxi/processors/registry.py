"""Which queues have a processor here, and whether inputs fit it.

Lingxi's nine queues exist from the start, a user's comes with its processor. One whose processor is not built yet, or that
this deployment does not have (`LINGXI_QUEUES`), refuses submission with 40001 and says which types are available.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from lingxi.domain.errors import FieldError, SchemaError
from lingxi.names import QUEUES
from lingxi.processors.contract import Processor
from lingxi.processors.finding import whats_wrong

MAX_REPORTED_ERRORS = 100  # of one submission: enough to mend it, short enough to read


class Registry:
    """The processors of this deployment by logical queue name."""

    def __init__(
        self,
        processors: Iterable[Processor[Any]],
        deployed_queues: Iterable[str] = QUEUES,
    ) -> None:
        deployed = set(deployed_queues)
        given: dict[str, Processor[Any]] = {}
        for processor in processors:
            if why := whats_wrong(processor):
                raise ValueError(f"{why}.")
            if processor.name in given:
                raise ValueError(f"two processors for {processor.name!r}")
            given[processor.name] = processor
        known = tuple(dict.fromkeys([*QUEUES, *given]))
        if unknown := deployed - set(known):
            raise ValueError(f"unknown queues: {', '.join(sorted(unknown))}; known are: {', '.join(known)}")
        self._processors = {name: given[name] for name in known if name in given and name in deployed}
        self._lists: dict[str, TypeAdapter[list[BaseModel]]] = {
            name: TypeAdapter(list[processor.input_model])  # type: ignore[name-defined]
            for name, processor in self._processors.items()
        }

    def available(self) -> tuple[str, ...]:
        """The types that can be submitted: Lingxi's in the order of names.QUEUES, then users'."""
        return tuple(self._processors)

    def processors(self) -> tuple[Processor[Any], ...]:
        """In the same order."""
        return tuple(self._processors.values())

    def find(self, name: str) -> Processor[Any] | None:
        """The processor of a queue, or None."""
        return self._processors.get(name)

    def get(self, name: str) -> Processor[Any]:
        """The processor of a type that somebody wants to submit; SchemaError (40001, 422) when there is none."""
        if (processor := self._processors.get(name)) is not None:
            return processor
        what = "is not available here yet" if name in QUEUES else "is not a known type"
        listed = ", ".join(self.available()) or "none"
        sentence = f"The type {name[:64]!r} {what}; available are: {listed}."
        raise SchemaError(sentence, [FieldError("type", sentence)])

    def validate_inputs(self, name: str, inputs: Sequence[Any]) -> list[FieldError]:
        """Check all inputs of a submission in one pass; empty when all fit, else the first mistakes, each with its
        place (`items[16].input.sha256`).

        `inputs` are parsed JSON values, one an item. SchemaError for a type without a processor.
        """
        self.get(name)
        try:
            self._lists[name].validate_python(inputs if isinstance(inputs, list) else list(inputs))
        except ValidationError as error:
            found = error.errors(include_url=False, include_context=False, include_input=False)
            return [_field_error(one["loc"], one["msg"]) for one in found[:MAX_REPORTED_ERRORS]]
        return []


def _field_error(location: tuple[int | str, ...], message: str) -> FieldError:
    index, *path = location
    inside = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return FieldError(f"items[{index}].input{inside}", message)
