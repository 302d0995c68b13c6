"""The pages with the other workspace's ids: the page for what does not exist, and no way out of this server."""

from __future__ import annotations

import re
from typing import Any

from lingxi.services.quotas import Quota, set_quota
from lingxi.services.tokens import create_token
from tests.integration.api.harness import Api, World
from tests.tenancy.estate import NOWHERE, Estate
from tests.tenancy.test_across import signed_in, whole

ELSEWHERE = [
    "https://evil.example/",
    "//evil.example",
    "/\\evil.example",
    "/albums/../../evil",
    "/albums\n//evil.example",
    "javascript:alert(1)",
    "/albums/" + "a" * 36 + "//evil",
    "/tasks@evil.example",
    "\t//evil.example",
]
WITH_IDS = {"/tasks/{}": "taskId", "/albums/{}": "albumId", "/a/{}": "albumId"}


async def test_anothers_page_is_the_page_of_nothing(
    api: Api, world: World, ours: Estate, theirs: Estate
) -> None:
    async with signed_in(api, world.ours.admin) as admin:
        for template, name in WITH_IDS.items():
            own = await admin.get(api.url + template.format(ours.ids[name]))
            assert own.status_code == 200, template
            foreign, unknown, garbage = [
                whole(await admin.get(api.url + template.format(one)))
                for one in (theirs.ids[name], NOWHERE, "nothing")
            ]
            assert foreign == unknown == garbage and foreign[0] == 404, template
        for path in ("/", "/albums"):
            text = (await admin.get(api.url + path)).text
            assert not [
                one for one in theirs.ids.values() if f"{one}" in text and one not in ours.ids.values()
            ]


async def test_a_guests_cookie_opens_its_album_alone(api: Api, ours: Estate, theirs: Estate) -> None:
    async with api.client() as guest:
        await guest.get(f"{api.url}/s/{ours.share_secret}")
        assert (await guest.get(f"{api.url}/a/{ours.ids['albumId']}")).status_code == 200
        foreign, unknown = [
            whole(await guest.get(f"{api.url}/a/{one}")) for one in (theirs.ids["albumId"], NOWHERE)
        ]
        assert foreign == unknown and foreign[0] == 404
        for template, name in WITH_IDS.items():
            if not template.startswith("/a/"):
                answer = await guest.get(api.url + template.format(ours.ids[name]))
                assert answer.status_code == 303, "a guest is asked to sign in"
                assert answer.headers["location"].startswith("/?next=")
        unknown_link = await guest.get(f"{api.url}/s/{'A' * 43}")
        assert unknown_link.status_code == 404 and "set-cookie" not in unknown_link.headers


async def test_signing_in_leads_to_our_own_pages_only(api: Api, world: World) -> None:
    async with api.client(origin=api.url) as browser:
        for address in ELSEWHERE:
            answer = await browser.post(
                f"{api.url}/login", data={"token": world.ours.viewer, "next": address}
            )
            assert answer.status_code == 303 and answer.headers["location"] == "/"
            shown = (await browser.get(f"{api.url}/", params={"next": address}, headers={"cookie": ""})).text
            assert "evil" not in shown and "javascript:" not in shown


async def test_pages_carry_their_policy(api: Api, world: World, ours: Estate) -> None:
    """Also where they refuse: no inline script or style, no frame, nothing from elsewhere, nothing kept."""
    addresses = ["/", "/login", f"/tasks/{ours.ids['taskId']}", "/albums", f"/albums/{ours.ids['albumId']}"]
    addresses += [
        f"/a/{ours.ids['albumId']}",
        f"/s/{'A' * 43}",
        f"/tasks/{NOWHERE}",
        f"/s/{ours.share_secret}",
    ]
    async with signed_in(api, world.ours.admin) as admin:
        for address in addresses:
            answer = await admin.get(api.url + address)
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'" in policy and "unsafe" not in policy, address
            assert "frame-ancestors 'none'" in policy and "base-uri 'none'" in policy
            assert (
                answer.headers["cache-control"] == "no-store" and answer.headers["x-frame-options"] == "DENY"
            )
            assert answer.headers["x-robots-tag"] == "noindex"
            assert not re.search(r"<script(?![^>]*\bsrc=)|\son\w+=|\sstyle=|javascript:", answer.text), (
                address
            )
        assert answer.headers["referrer-policy"] == "no-referrer", "the address of a share link is its secret"


async def test_cookies_are_for_this_site_and_for_no_script(api: Api, world: World, ours: Estate) -> None:
    async with api.client(origin=api.url) as browser:
        signed = await browser.post(f"{api.url}/login", data={"token": world.ours.viewer})
        opened = await browser.get(f"{api.url}/s/{ours.share_secret}")
        for answer in (signed, opened):
            cookie = answer.headers["set-cookie"].lower()
            assert "httponly" in cookie and "samesite=strict" in cookie and "path=/" in cookie
            assert "secure" not in cookie, "by plain HTTP, on loopback, it could not be set"
        behind_tls = {"x-forwarded-proto": "https", "x-forwarded-for": "203.0.113.9"}
        by_https = await browser.post(
            f"{api.url}/login", data={"token": world.ours.viewer}, headers=behind_tls
        )
        assert "secure" in by_https.headers["set-cookie"].lower()


async def test_a_token_of_no_workspace_signs_nobody_in(api: Api, world: World, pool: Any) -> None:
    async with pool.acquire() as connection:
        _, worker = await create_token(connection, workspace_id=None, role="worker", name="w")
    async with api.client(origin=api.url) as browser:
        for secret in (world.operator, worker):
            answer = await browser.post(f"{api.url}/login", data={"token": secret})
            assert answer.status_code == 401 and "set-cookie" not in answer.headers
            assert "is not valid here" in answer.text
    assert await pool.fetchval("select count(*) from audit_log where verb = 'session.open'") == 0


async def test_pages_count_for_the_workspaces_rate(api: Api, world: World, pool: Any) -> None:
    async with pool.acquire() as connection:
        await set_quota(connection, world.ours.workspace_id, Quota(requests_per_minute=5))
    async with signed_in(api, world.ours.viewer) as viewer:
        answers = [await viewer.get(f"{api.url}/albums") for _ in range(6)]
    assert {answer.status_code for answer in answers} == {200, 429}
    assert answers[-1].status_code == 429 and int(answers[-1].headers["retry-after"]) >= 1
