"""The pages of a running Lingxi, as a browser uses them: a cookie for the pages, the stream and the buttons."""

import httpx

from tests.e2e.conftest import Up, last_json

BODY = '{"type":"demo:drill","items":[{"ref":"a","input":{"fail":"permanent"}}]}'


def test_one_session_serves_pages_stream_and_buttons(up: Up) -> None:
    task = last_json(up.run("submit", "-", "--watch", "--json", text_in=BODY).stdout)
    api = f"/api/v1/media-tasks/{task['id']}"
    ours = {"Origin": up.url}
    with httpx.Client(base_url=up.url, timeout=20) as browser:
        assert browser.get(f"/tasks/{task['id']}").headers["location"].startswith("/?next=")
        assert browser.get(f"{api}/events").status_code == 401
        signed_in = browser.post("/login", data={"token": up.token}, headers=ours)
        assert signed_in.status_code == 303
        assert up.token not in signed_in.headers["set-cookie"]
        assert task["id"] in browser.get("/").text
        assert "drill_failed" in browser.get(f"/tasks/{task['id']}").text

        events = browser.get(f"{api}/events?lastEventId=0").text
        assert "event: item" in events
        assert "event: end" in events
        assert browser.get(f"{api}/events?lastEventId={task['cursor']}").status_code == 204

        assert browser.post(f"{api}/retry-failed").status_code == 403
        assert browser.post(f"{api}/retry-failed", headers={"Origin": "http://elsewhere"}).status_code == 403
        assert browser.post(f"{api}/retry-failed", headers=ours).status_code == 202

        assert browser.post("/logout", headers=ours).status_code == 303
        assert task["id"] not in browser.get("/").text


def test_an_operators_token_opens_no_page(up: Up) -> None:
    secret = up.run("token", "create", "--operator").stdout.strip()
    with httpx.Client(base_url=up.url, timeout=20) as browser:
        browser.post("/login", data={"token": secret}, headers={"Origin": up.url})
        assert 'type="password"' in browser.get("/").text


def test_a_token_revoked_on_the_command_line_ends_its_streams(up: Up) -> None:
    body = '{"type":"demo:drill","items":[{"input":{"durationMs":60000}}]}'
    task = last_json(up.run("submit", "-", "--json", text_in=body).stdout)
    made = last_json(up.run("token", "create", "--role", "viewer", "--json").stdout)
    headers = {"Authorization": f"Bearer {made['token']}"}
    with httpx.stream(
        "GET", f"{up.url}/api/v1/media-tasks/{task['id']}/events", headers=headers, timeout=15
    ) as told:
        lines = told.iter_lines()
        assert any("event: snapshot" in line for line in lines)
        assert up.run("token", "revoke", made["id"]).returncode == 0
        assert not any("event: end" in line for line in lines)  # the server closed it, and the task goes on
    up.run("cancel", task["id"])
