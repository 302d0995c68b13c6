"""The committed document is what the code says, complete, and keeps what was released; the check sees what breaks."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema_rs import validator_for
from pydantic import TypeAdapter

from lingxi.api import examples, openapi, schemas
from lingxi.api.compatibility import breaking_changes

FOLDER = Path(__file__).parents[3] / "openapi"
RELEASED: dict[str, Any] = json.loads((FOLDER / "released.json").read_text())
TASKS = "/api/v1/media-tasks"


def test_a_stale_document_is_seen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "openapi.json").write_text("{}")
    (tmp_path / "released.json").write_text((FOLDER / "released.json").read_text())
    assert openapi.main(["--check", "--folder", str(tmp_path)]) == 1
    assert "out of date" in capsys.readouterr().err


def test_every_operation_documents_its_errors_with_examples() -> None:
    document = openapi.document()
    assert document["openapi"].startswith("3.1")
    ids = []
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            ids.append(operation["operationId"])
            assert operation["summary"], (path, method)
            statuses = set(operation["responses"])
            assert {"400", "500"} <= statuses, (path, method)
            if operation.get("security"):
                assert {"401", "403", "503"} <= statuses, (path, method)
            if "{" in path and method != "put":
                assert "404" in statuses, (path, method)
            for status, answer in operation["responses"].items():
                if status < "400":
                    for media, content in answer.get("content", {}).items():
                        file = "contentMediaType" in content["schema"]
                        assert file or content["example"] is not None, (path, method, media)
                    continue
                content = answer["content"]["application/problem+json"]
                for example in content["examples"].values():
                    assert example["value"]["status"] == int(status)
    assert len(ids) == len(set(ids))
    assert not any("metrics" in path for path in document["paths"])


def test_every_example_fits_its_schema() -> None:
    document = openapi.document()
    for operations in document["paths"].values():
        for operation in operations.values():
            contents = [a.get("content", {}) for a in operation["responses"].values()]
            contents.append(operation.get("requestBody", {}).get("content", {}))
            for content in contents:
                for media, described in content.items():
                    if "json" not in media:
                        continue
                    validator = validator_for({**described["schema"], "components": document["components"]})
                    given = [described["example"]] if "example" in described else []
                    given += [example["value"] for example in described.get("examples", {}).values()]
                    assert given
                    for value in given:
                        validator.validate(value)


def test_examples_are_what_the_models_say() -> None:
    TypeAdapter(schemas.Task).validate_python(examples.ENDED)
    TypeAdapter(schemas.Item).validate_python(examples.ITEM)


Document = dict[str, Any]


def _remove_path(d: Document) -> None:
    del d["paths"][TASKS]


def _remove_method(d: Document) -> None:
    del d["paths"][TASKS]["get"]


def _remove_answer_field(d: Document) -> None:
    del d["components"]["schemas"]["Task"]["properties"]["cursor"]


def _answer_field_may_be_absent(d: Document) -> None:
    d["components"]["schemas"]["Task"]["required"].remove("cursor")


def _answer_field_may_be_null(d: Document) -> None:
    d["components"]["schemas"]["Task"]["properties"]["cursor"]["type"] = ["integer", "null"]


def _other_status(d: Document) -> None:
    answers = d["paths"][TASKS]["post"]["responses"]
    answers["201"] = answers.pop("202")


def _required_field(d: Document) -> None:
    d["components"]["schemas"]["NewTask"]["required"].append("metadata")


def _field_not_taken(d: Document) -> None:
    del d["components"]["schemas"]["NewItem"]["properties"]["ref"]


def _fewer_items(d: Document) -> None:
    d["components"]["schemas"]["NewTask"]["properties"]["items"]["maxItems"] = 100


def _fewer_priorities(d: Document) -> None:
    d["components"]["schemas"]["NewTask"]["properties"]["priority"]["enum"].remove("bulk")


def _parameter_gone(d: Document) -> None:
    d["paths"][TASKS]["get"]["parameters"] = [
        p for p in d["paths"][TASKS]["get"]["parameters"] if p["name"] != "status"
    ]


def _parameter_required(d: Document) -> None:
    d["paths"][TASKS]["get"]["parameters"][0]["required"] = True


def _body_required(d: Document) -> None:
    d["paths"][TASKS + "/{taskId}/cancel"]["post"]["requestBody"]["required"] = True


@pytest.mark.parametrize(
    "change",
    [_remove_path, _remove_method, _remove_answer_field, _answer_field_may_be_absent, _answer_field_may_be_null,
     _other_status, _required_field, _field_not_taken, _fewer_items, _fewer_priorities, _parameter_gone, _parameter_required,
     _body_required],
)  # fmt: skip
def test_what_breaks_clients_is_seen(change: Callable[[Document], None]) -> None:
    changed = copy.deepcopy(RELEASED)
    change(changed)
    assert breaking_changes(RELEASED, changed) != []


def test_what_only_adds_is_allowed() -> None:
    changed = copy.deepcopy(RELEASED)
    changed["paths"]["/api/v1/albums"] = changed["paths"][TASKS]
    models = changed["components"]["schemas"]
    models["Task"]["properties"]["more"] = {"type": "string"}
    models["Task"]["required"].append("more")
    models["NewTask"]["properties"]["deadline"] = {"type": "string"}
    models["NewTask"]["properties"]["priority"]["enum"].append("urgent")
    models["NewTask"]["properties"]["items"]["maxItems"] = 20_000
    changed["paths"][TASKS]["get"]["parameters"].append(
        {"in": "query", "name": "sort", "schema": {"type": "string"}}
    )
    assert breaking_changes(RELEASED, changed) == []
