"""From tasks and items to HTML. Every value from outside passes `escape`; only this module puts markup together."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape

from lingxi.domain.ids import item_id
from lingxi.domain.states import Counts
from lingxi.domain.wire import Item, Task
from lingxi.web.assets import static_url, template

STATES = ("succeeded", "failed", "cancelled", "running", "retrying", "queued")
WORDS = {"partially_failed": "partially failed"}


def page(title: str, body: str, *, signed_in: bool, script: bool = True) -> str:
    """The frame around every page."""
    return template("frame").substitute(
        title=escape(title),
        body=body,
        css=static_url("app.css"),
        icon=static_url("favicon.svg"),
        script=f'<script src="{static_url("app.js")}" type="module"></script>' if script else "",
        account=template("sign_out").template if signed_in else "",
    )


def login_page(problem: str = "") -> str:
    """The form that takes a token."""
    alert = f'<p class="problem" role="alert" id="problem">{escape(problem)}</p>' if problem else ""
    described = ' aria-describedby="problem" aria-invalid="true"' if problem else ""
    body = template("login").substitute(alert=alert, described=described)
    return page("Sign in", body, signed_in=False, script=False)


def list_page(tasks: Sequence[Task], older: str | None) -> str:
    """Tasks, newest first; `older` is the address of the next page."""
    rows = "".join(_task_row(task) for task in tasks)
    empty = "" if tasks else '<p class="empty">No tasks yet. Submit one with <code>lingxi submit</code>.</p>'
    link = f'<a rel="next" href="{escape(older)}">Older tasks</a>' if older else ""
    return page("Tasks", template("list").substitute(rows=rows, empty=empty, older=link), signed_in=True)


def task_page(task: Task, items: Sequence[Item], *, may_steer: bool, more_items: int) -> str:
    """One task with the items given; the script keeps it live."""
    more = f'<p class="empty">{more_items} more items are not listed here.</p>' if more_items > 0 else ""
    body = template("task").substitute(
        id=task.id,
        type=escape(task.type),
        status=escape(task.status),
        status_words=_words(task.status),
        round=task.round,
        created=_time(task.created_at),
        cursor=task.cursor,
        final="true" if task.final else "false",
        bar=bar(task.counts),
        counts=_count_list(task.counts),
        cancel_hidden="" if may_steer and not task.final and not task.cancel_requested else "hidden",
        retry_hidden="" if may_steer and task.final and task.counts.failed else "hidden",
        steer="true" if may_steer else "false",
        rows="".join(_item_row(item) for item in items),
        more=more,
    )
    return page(f"{task.type} · {_words(task.status)}", body, signed_in=True)


def not_found_page() -> str:
    return page("Not found", template("not_found").template, signed_in=True, script=False)


def bar(counts: Counts) -> str:
    """Segments by state. Widths are attributes of SVG, as the content policy allows no inline styles."""
    offset, segments = 0.0, []
    for state in STATES:
        share = 100 * getattr(counts, state) / counts.total if counts.total else 0
        segments.append(
            f'<rect class="{state}" data-state="{state}" x="{offset:.3f}%" width="{share:.3f}%" height="100%"/>'
        )
        offset += share
    return "".join(segments)


def _task_row(task: Task) -> str:
    counts = task.counts
    done = counts.succeeded + counts.failed + counts.cancelled
    failed = f", {counts.failed} failed" if counts.failed else ""
    return (
        f'<tr><td><a href="/tasks/{task.id}">{escape(task.type)}</a></td>'
        f'<td><span class="chip {escape(task.status)}">{_words(task.status)}</span></td>'
        f'<td class="number">{done} of {counts.total}{failed}</td>'
        f"<td>{_time(task.created_at)}</td></tr>"
    )


def _item_row(item: Item) -> str:
    error = f"{escape(item.error.code)}: {escape(item.error.message)}" if item.error else ""
    name = escape(item.ref) if item.ref else f"item {item.position - 1}"
    return (
        f'<tr data-index="{item.position - 1}" data-item="{item_id(item.task_id, item.position)}">'
        f'<td class="name">{name}</td>'
        f'<td><span class="chip {escape(item.state)}">{_words(item.state)}</span></td>'
        f'<td class="number">{item.attempt}</td><td class="error">{error}</td></tr>'
    )


def _count_list(counts: Counts) -> str:
    return "".join(
        f'<div class="{state}"><dt>{_words(state)}</dt><dd data-count="{state}">{getattr(counts, state)}</dd></div>'
        for state in STATES
    )


def _words(state: str) -> str:
    return escape(WORDS.get(state, state))


def _time(value: datetime) -> str:
    moment = value.astimezone(UTC)
    return f'<time datetime="{moment:%Y-%m-%dT%H:%M:%SZ}">{moment:%Y-%m-%d %H:%M:%S} UTC</time>'
