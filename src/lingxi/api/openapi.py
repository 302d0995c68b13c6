"""The OpenAPI 3.1 document, made from the routes; and whether it still says what was released.

python -m lingxi.api.openapi --write      put the document into openapi/openapi.json
python -m lingxi.api.openapi --check      fail when that file is out of date, or breaks what openapi/released.json promised
python -m lingxi.api.openapi --release    what is written becomes what was released
"""

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from lingxi.api import (
    album_schemas,
    audit_schemas,
    schemas,
    steering_schemas,
    storage_schemas,
    webhook_schemas,
    why_schemas,
    worker_schemas,
)
from lingxi.api.app import API_ROUTERS
from lingxi.api.compatibility import breaking_changes
from lingxi.api.documented import SHARED_MARK
from lingxi.api.routes import monitoring

_DESCRIPTION = """\
Batches of media work, seen through: submit, queue, live progress, done or failed, cancel, retry only what failed.

Errors are `application/problem+json` (RFC 9457) with a stable `code`. What is outside the caller's workspace is answered
exactly like what does not exist. Checks come in this order: token (401), role (403), existence (404), Idempotency-Key,
body, state. Every answer carries `X-Request-Id`. A method that an address does not take is 405 with code 40501.
"""
API_VERSION = "1.0.0"  # of the contract, not of the package
_METHODS = ("get", "put", "post", "delete", "head", "patch", "options")
_OPEN_TAGS = {"Health"}
_SCHEMA_MODULES = (
    schemas,
    album_schemas,
    audit_schemas,
    storage_schemas,
    worker_schemas,
    webhook_schemas,
    why_schemas,
    steering_schemas,
)
_WITH_OPTIONAL_MEMBERS = (
    *("NewTask", "NewItem", "RetryChoice", "NewToken", "NewWorkspace", "Problem"),
    *("LinkRequest", "DirectUploadRequest"),
    *("NewAlbum", "AlbumChange", "NewShareLink", "AlbumCounts", "Photo", "UploadedFile"),
    *("NewWebhook", "WebhookChange", "WebhookRotation", "WebhookReplay"),
    *("NewClaims", "NewLease", "NewProgress", "NewEnding", "NewItemError"),
    *("Redrive", "NewHold"),
)


def document() -> dict[str, Any]:
    """The whole document as plain values, always the same for the same code."""
    app = FastAPI()
    routers = (*API_ROUTERS, monitoring.queues)
    for router in routers:
        app.include_router(router)
    made = get_openapi(
        title="Lingxi",
        version=API_VERSION,
        openapi_version="3.1.0",
        description=_DESCRIPTION,
        routes=app.routes,
    )
    made["components"] = {"schemas": _schemas(), "securitySchemes": _security_schemes()}
    made["servers"] = [{"url": "/"}]
    for route in (route for router in routers for route in router.routes if isinstance(route, APIRoute)):
        if route.include_in_schema:
            _put_back(route, made["paths"][route.path_format])
    for path, operations in made["paths"].items():
        for method in _METHODS:
            if (operation := operations.get(method)) is not None:
                _finish(path, method, operation)
    return made


def text() -> str:
    """The document as it is committed."""
    return json.dumps(document(), indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def _put_back(route: APIRoute, operations: dict[str, Any]) -> None:
    """FastAPI drops every null, also in examples, where it is a value: take answers and bodies as the route wrote them."""
    for method in route.methods or ():
        operation = operations[method.lower()]
        operation["responses"] = {str(status): answer for status, answer in route.responses.items()}
        if (body := (route.openapi_extra or {}).get("requestBody")) is not None:
            operation["requestBody"] = body


def _finish(path: str, method: str, operation: dict[str, Any]) -> None:
    """What FastAPI adds or leaves out."""
    operation["operationId"] = "_".join(re.findall(r"[A-Za-z]+", f"{method}/{path.removeprefix('/api/v1/')}"))
    if not _OPEN_TAGS & set(operation["tags"]):
        operation["security"] = [{"token": []}, {"session": []}]
        if path.endswith("/events"):
            operation["security"].append({"streamToken": []})
        if operation.pop(SHARED_MARK, False):
            operation["security"].append({"shareLink": []})
    if path.endswith("/{token}"):
        operation["security"] = []  # the link is all that is needed
    for parameter in operation.get("parameters", []):
        parameter["schema"].pop("title", None)


def _schemas() -> dict[str, Any]:
    models = {
        model.__name__: model
        for module in _SCHEMA_MODULES
        for model in vars(module).values()
        if isinstance(model, type) and issubclass(model, BaseModel) and model not in (BaseModel, schemas.Wire)
    }
    wanted = [(model, "serialization") for model in models.values()]
    _, made = models_json_schema(wanted, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]
    definitions = {name: _without_titles(schema) for name, schema in made["$defs"].items()}
    for name in _WITH_OPTIONAL_MEMBERS:
        _only_required(definitions[name], models[name])
    return definitions


def _only_required(schema: dict[str, Any], model: type[BaseModel]) -> None:
    """Requests may leave out what has a default; answers never do (except a problem's `errors`)."""
    schema["required"] = [
        field.alias or name for name, field in model.model_fields.items() if field.is_required()
    ]


def _without_titles(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {
            key: _without_titles(value)
            for key, value in schema.items()
            if not (key == "title" and isinstance(value, str))
        }
    if isinstance(schema, list):
        return [_without_titles(value) for value in schema]
    return schema


def _security_schemes() -> dict[str, Any]:
    return {
        "token": {
            "type": "http",
            "scheme": "bearer",
            "description": "`lx_…`, made with `lingxi token create` or POST /tokens.",
        },
        "session": {
            "type": "apiKey",
            "in": "cookie",
            "name": "lingxi_session",
            "description": "Made with POST /session. Changing requests need an Origin that names this server.",
        },
        "shareLink": {
            "type": "apiKey",
            "in": "cookie",
            "name": "lingxi_share_{albumId}",
            "description": "Of guests: the page `/s/{secret}` exchanges a share link for it. The album's id is without "
            "hyphens. It opens the operations that name it, for this album; all others are 404.",
        },
        "streamToken": {
            "type": "apiKey",
            "in": "query",
            "name": "token",
            "description": "For the events of one task or album only.",
        },
    }


def main(arguments: list[str] | None = None) -> int:
    """Exit 0: as it should be; 1: said on standard error what is not."""
    parser = argparse.ArgumentParser(prog="python -m lingxi.api.openapi", description="The OpenAPI document.")
    parser.add_argument("--folder", type=Path, default=Path("openapi"))
    what = parser.add_mutually_exclusive_group(required=True)
    for name in ("--write", "--check", "--release"):
        what.add_argument(name, action="store_true")
    given = parser.parse_args(arguments)
    written, released = given.folder / "openapi.json", given.folder / "released.json"
    if given.write:
        given.folder.mkdir(exist_ok=True)
        written.write_text(text(), "utf-8")
        return 0
    if given.release:
        released.write_text(written.read_text("utf-8"), "utf-8")
        return 0
    wrong = []
    if not written.exists() or written.read_text("utf-8") != text():
        wrong.append(
            f"{written} is out of date: run `python -m lingxi.api.openapi --write`, and look at the difference."
        )
    wrong += [
        f"breaks what was released: {change}"
        for change in breaking_changes(json.loads(released.read_text("utf-8")), document())
    ]
    for line in wrong:
        sys.stderr.write(line + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
