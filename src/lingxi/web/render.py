"""From tasks and items to HTML. Every value from outside passes `escape`; only this module puts markup together."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape

from lingxi.domain.ids import item_id
from lingxi.domain.states import Counts
from lingxi.domain.wire import Item, Task
from lingxi.web.assets import fragment, static_url, template

STATES = ("succeeded", "failed", "cancelled", "running", "retrying", "queued")
WORDS = {"partially_failed": "partially failed"}
ALBUM_STYLES = ("app.css", "album.css")
GUEST = "album-page guest"


def page(
    title: str,
    body: str,
    *,
    signed_in: bool,
    script: str = "",
    styles: Sequence[str] = ("app.css",),
    body_class: str = "",
    head: str = "",
    foot: str = "",
) -> str:
    """The frame around every page. `body`, `head` and `foot` are markup; `script` names a static file."""
    return template("frame").substitute(
        title=escape(title),
        body=body,
        head=head,
        foot=foot,
        styles="\n".join(f'<link rel="stylesheet" href="{static_url(name)}">' for name in styles),
        icon=static_url("favicon.svg"),
        script=f'<script src="{static_url(script)}" type="module"></script>' if script else "",
        account=fragment("sign_out.html") if signed_in else "",
        body_class=f' class="{body_class}"' if body_class else "",
    )


def login_page(problem: str = "", go_on: str = "") -> str:
    """The form that takes a token. `go_on`: the address to show after it."""
    alert = f'<p class="problem" role="alert" id="problem">{escape(problem)}</p>' if problem else ""
    described = ' aria-describedby="problem" aria-invalid="true"' if problem else ""
    body = template("login").substitute(alert=alert, described=described, go_on=escape(go_on))
    return page("Sign in", body, signed_in=False)


def link_page() -> str:
    """The button that uses a sign-in link up."""
    return page("Sign in", fragment("link.html"), signed_in=False, script="link.js")


def opening_page(address: str, *, signed_in: bool) -> str:
    """Goes to `address` by itself."""
    body = template("opening").substitute(camera=fragment("camera.svg"), address=escape(address))
    refresh = f'<meta http-equiv="refresh" content="0;url={escape(address)}">'
    return page("Opening", body, signed_in=signed_in, styles=ALBUM_STYLES, body_class=GUEST, head=refresh)


def refused_page(title: str, sentence: str) -> str:
    """Something was refused, or cannot be done now."""
    body = template("closed").substitute(
        camera=fragment("camera.svg"), title=escape(title), sentence=escape(sentence)
    )
    return page(title, body, signed_in=False, styles=ALBUM_STYLES, body_class=GUEST)


def list_page(tasks: Sequence[Task], older: str | None) -> str:
    """Tasks, newest first; `older` is the address of the next page."""
    rows = "".join(_task_row(task) for task in tasks)
    empty = "" if tasks else '<p class="empty">No tasks yet. Submit one with <code>lingxi submit</code>.</p>'
    link = f'<a rel="next" href="{escape(older)}">Older tasks</a>' if older else ""
    return page(
        "Tasks",
        template("list").substitute(rows=rows, empty=empty, older=link),
        signed_in=True,
        script="app.js",
    )


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
    return page(f"{task.type} · {_words(task.status)}", body, signed_in=True, script="app.js")


def not_found_page() -> str:
    return page("Not found", fragment("not_found.html"), signed_in=True)


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
