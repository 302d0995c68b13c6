"""The bugs. Each replaces one piece of text in one file. The text has to be there exactly once: a list that has aged is seen."""

from __future__ import annotations

from typing import NamedTuple

SPINE = "src/lingxi/db/migrations/0001_spine.sql"
CLAIM = "src/lingxi/db/migrations/0004_processors.sql"
QUERIES = "src/lingxi/db/queries/"
EXPLORER = "tests/explorer/test_explorer.py::test_every_interleaving_of_a_small_task"
TWO_ITEMS = "tests/explorer/test_explorer.py::test_two_items_a_few_steps_far"
DISPATCHER = "tests/integration/outbox/test_dispatcher.py"
FAULTS = "tests/integration/outbox/test_faults.py"
SWEEPER = "tests/integration/maintenance/test_sweeper.py"
IDEMPOTENCY = "tests/integration/api/test_idempotency.py"
RESUME = "tests/integration/stream/test_resume.py"
FAN_OUT = "tests/integration/stream/test_fan_out.py"
ATTEMPTS = "tests/integration/worker/test_attempts.py"
CONSUMER = "tests/integration/worker/test_consumer.py"
PHOTOS = "tests/integration/photos/"
STEERING = "tests/integration/steering/"
FUZZ = "tests/fuzz/"
OPERATIONS = "src/lingxi/db/migrations/0007_operations.sql"
PLANS = "src/lingxi/db/migrations/0008_canary.sql"


class Mutant(NamedTuple):
    """`old` becomes `new` in `path`; `tests` are pytest's arguments."""

    area: str
    name: str
    path: str
    old: str
    new: str
    tests: tuple[str, ...]


MUTANTS = (
    # ── the state machine ────────────────────────────────────────────────────────────────────────────────
    Mutant("state machine", "a success is counted twice", SPINE,
           "succeeded_items = succeeded_items + p.s", "succeeded_items = succeeded_items + 2 * p.s", (EXPLORER,)),
    Mutant("state machine", "an attempt that fails waits although a cancel was asked", SPINE,
           "when t.cancel_requested_at is not null then 'failed'", "when false then 'failed'", (EXPLORER,)),
    Mutant("state machine", "what is given back waits although a cancel was asked", SPINE,
           "case when t.cancel_requested_at is not null then 'cancelled' else 'queued' end", "'queued'", (EXPLORER,)),
    Mutant("state machine", "a lost attempt is never the last", SPINE,
           "when g.outcome = 'lost' and i.attempt >= t.max_attempts then 'failed'", "", (EXPLORER,)),
    Mutant("state machine", "giving back is charged", SPINE,
           "then i.attempt - 1 else i.attempt", "then i.attempt else i.attempt", (EXPLORER,)),
    Mutant("state machine", "the end of a round has no number", SPINE,
           "p.q = 0 then 1 else 0 end,", "p.q = 0 then 0 else 0 end,", (EXPLORER,)),
    Mutant("state machine", "every batch ends the round", SPINE,
           "from rolled r where r.finished_at is not null)\n  -- All", "from rolled r)\n  -- All", (EXPLORER,)),
    Mutant("state machine", "an ended attempt has no history", SPINE,
           "from done d where d.state <> 'succeeded')", "from done d where false)", (EXPLORER,)),
    Mutant("state machine", "what waits again has no event", SPINE,
           "where d.state in ('queued', 'retrying')\n", "where d.state = 'queued'\n", (EXPLORER,)),
    Mutant("state machine", "a running item is claimed again", CLAIM,
           "where i.state = 'queued' or (i.state", "where i.state in ('queued', 'running') or (i.state", (EXPLORER,)),
    Mutant("state machine", "a cancel ends running items", SPINE,
           "and i.state in ('queued', 'retrying')),\n  gone", "and i.state in ('queued', 'retrying', 'running')),\n  gone", (EXPLORER,)),
    Mutant("state machine", "a cancel leaves retrying items", SPINE,
           "and i.state in ('queued', 'retrying')),\n  gone", "and i.state = 'queued'),\n  gone", (EXPLORER,)),
    Mutant("state machine", "retry-failed retries what was cancelled", SPINE,
           "and i.state = 'failed'),\n  again", "and i.state in ('failed', 'cancelled')),\n  again", (TWO_ITEMS,)),
    Mutant("state machine", "the cancel outlives its round", SPINE,
           "round = round + 1, cancel_requested_at = null,", "round = round + 1,", (EXPLORER,)),
    Mutant("state machine", "one attempt more than allowed", "src/lingxi/domain/decide.py",
           "retryable and attempt < max_attempts:", "retryable and attempt <= max_attempts:",
           ("tests/unit/domain", CONSUMER + "::test_transient_errors_are_tried_again_and_permanent_ones_are_not")),
    Mutant("state machine", "a permanent error is tried again", "src/lingxi/domain/decide.py",
           "if retryable and attempt", "if attempt", ("tests/unit/domain",)),
    # ── the fence ────────────────────────────────────────────────────────────────────────────────────────
    Mutant("fence", "a superseded attempt may finish", SPINE,
           "i.state = 'running' and i.attempt_id = g.fence and", "i.state = 'running' and", (EXPLORER,)),
    Mutant("fence", "a new attempt has the fence of the old one", CLAIM,
           "attempt_id = nextval('attempt_ids')", "attempt_id = coalesce(i.attempt_id, nextval('attempt_ids'))", (EXPLORER,)),
    Mutant("fence", "a processor's transaction does not look at the fence", QUERIES + "items/guard.sql",
           "and attempt_id = $3 ", "and $3::bigint is not null ",
           (ATTEMPTS + "::test_an_effect_of_a_superseded_attempt_is_rolled_back",)),
    Mutant("fence", "an ending that was committed before counts as superseded", SPINE,
           "<> 'running' then 'already'", "<> 'running' then 'superseded'", (EXPLORER,)),
    Mutant("fence", "somebody else's lease is renewed", SPINE,
           "where i.attempt_id = a.fence and i.state = 'running' and i.deadline_at > clock_timestamp()\n$f$",
           "where i.state = 'running' and i.deadline_at > clock_timestamp()\n$f$", (EXPLORER,)),
    Mutant("fence", "a lease is renewed past the deadline", SPINE,
           "set lease_expires_at = least(clock_timestamp() + p_lease, i.deadline_at)", "set lease_expires_at = clock_timestamp() + p_lease",
           (ATTEMPTS + "::test_no_lease_is_renewed_past_the_deadline", ATTEMPTS + "::test_a_processor_that_blocks_the_loop_past_its_lease_loses_nothing")),
    Mutant("fence", "a worker does not hear that its lease was lost", "src/lingxi/worker/lease.py",
           "            if fences:\n", "            if False:\n", (ATTEMPTS + "::test_a_processor_is_told_when_its_lease_was_lost",)),
    Mutant("fence", "a photo's job is finished by any attempt", QUERIES + "photo_jobs/finish.sql",
           "and attempt_id = $2 and", "and $2::bigint is not null and", (PHOTOS + "test_retries.py::test_a_superseded_attempt_writes_nothing",)),
    Mutant("fence", "a photo is published twice", QUERIES + "photos/publish.sql",
           "and processing_state in ('uploaded', 'processing_failed') and", "and",
           (PHOTOS + "test_jobs.py::test_two_workers_race_on_one_photo", "tests/fault/test_photo_kills.py")),
    Mutant("fence", "a generation that nobody asked for is published", "src/lingxi/db/queries/photos/request_generation.sql",
           "requested_generation = requested_generation + 1", "requested_generation = requested_generation + 2", (PHOTOS + "test_reprocess.py",)),
    Mutant("fence", "an older generation covers a newer one", QUERIES + "photos/republish.sql",
           "and published_generation < $2 and", "and", (PHOTOS + "test_reprocess.py",)),
    Mutant("fence", "a recalled photo is published", QUERIES + "photos/publish.sql",
           "and visibility <> 'recalled' ", "", (PHOTOS + "test_jobs.py::test_recalled_while_it_is_processed_stays_recalled",)),
    # ── the outbox ───────────────────────────────────────────────────────────────────────────────────────
    Mutant("outbox", "what is due later is sent now", QUERIES + "outbox/claim_due.sql",
           "and e.next_attempt_at <= clock_timestamp()\n", "\n",
           (DISPATCHER + "::test_what_is_due_later_waits", FAULTS)),
    Mutant("outbox", "dead letters are sent again", QUERIES + "outbox/charge.sql",
           "then 'dead_lettered' else", "then 'send_failed' else", (FAULTS + "::test_after_ten_attempts_an_event_is_a_dead_letter",)),
    Mutant("outbox", "one attempt too many before a dead letter", QUERIES + "outbox/charge.sql",
           "when attempts >= $4 - 1", "when attempts > $4 - 1", (FAULTS + "::test_after_ten_attempts_an_event_is_a_dead_letter",)),
    Mutant("outbox", "events are not locked", QUERIES + "outbox/claim_due.sql",
           "for update of e skip locked", "", (DISPATCHER + "::test_two_that_both_believe_to_lead_share_the_events",)),
    Mutant("outbox", "jobs for items that do not wait", QUERIES + "outbox/items_of_events.sql",
           "position between e.first_position and e.last_position and state in ('queued', 'retrying')",
           "position between e.first_position and e.last_position", (DISPATCHER + "::test_an_item_that_no_longer_waits_gets_no_job",)),
    Mutant("outbox", "what was sent is not marked", "src/lingxi/outbox/dispatcher.py",
           "        if published:\n            await", "        if published and not delivered.sent:\n            await",
           (DISPATCHER + "::test_each_waiting_item_becomes_one_job",)),
    Mutant("outbox", "the whole batch is charged for one", "src/lingxi/outbox/sender.py",
           "        if len(parcels) == 1:\n", "        if parcels:\n", (FAULTS + "::test_only_the_guilty_event_of_a_batch_is_charged",)),
    Mutant("outbox", "an outage of Redis is charged", "src/lingxi/outbox/sender.py",
           "        except BrokerUnavailable as error:\n            delivered.unavailable = str(error)\n        except BrokerError",
           "        except BrokerError",
           (FAULTS + "::test_words_of_a_server_that_cannot_serve_charge_nothing", FAULTS + "::test_redis_dies_between_the_claim_and_the_sending")),
    Mutant("outbox", "the lock in Redis is taken by everybody", "src/lingxi/outbox/dispatcher.py",
           "        if not done.leader:\n            return\n", "", (DISPATCHER + "::test_one_of_two_dispatchers_leads",)),
    Mutant("outbox", "an error that nobody foresaw is nobody's", "src/lingxi/outbox/dispatcher.py",
           '                await self._blame(f"{type(error).__name__}: {error}", done)\n', "",
           (FUZZ + "test_outbox_rows.py::test_an_error_that_nobody_foresaw_is_charged_to_its_event_alone",)),
    Mutant("outbox", "any priority is believed", "src/lingxi/outbox/events.py",
           "    if row[\"priority\"] not in names.PRIORITIES.values():\n", "    if False:\n", (FUZZ + "test_outbox_rows.py",)),
    # ── dead letters, holds, plans ───────────────────────────────────────────────────────────────────────
    Mutant("steering", "any event can be sent again", QUERIES + "outbox/redrive.sql",
           "published_at is null and last_error = 'dead_lettered'", "published_at is null", (STEERING + "test_dead_letters.py",)),
    Mutant("steering", "a discarded letter ends what a later event waits for", OPERATIONS,
           "o.round = e.round and o.id > e.id", "o.round = e.round and o.id > e.id and false", (STEERING + "test_dead_letters.py",)),
    Mutant("steering", "the end after a discard has no number", OPERATIONS,
           "last_seq + s.n + case when queued_items + running_items + retrying_items = s.n then 1 else 0 end", "last_seq + s.n",
           (STEERING + "test_dead_letters.py",)),
    Mutant("steering", "a paused queue is sent to", "src/lingxi/outbox/dispatcher.py",
           "[queue for queue in roomy if queue not in by_hand]", "list(roomy)", (STEERING + "test_queues.py",)),
    Mutant("steering", "a paused queue gives claims", QUERIES + "items/claim.sql",
           "h.state = 'paused'", "h.state = 'nothing'", (STEERING + "test_queues.py",)),
    Mutant("steering", "a canary that failed is followed", PLANS,
           "when i.state = 'succeeded' then 'followed'", "when i.state <> 'cancelled' then 'followed'", (STEERING + "test_retry_choice.py",)),
    Mutant("steering", "a canary is tried again with the rest", PLANS,
           "i.error_code = any(v_codes) and i.round < v.round", "i.error_code = any(v_codes)", (STEERING + "test_retry_choice.py",)),
    Mutant("steering", "a plan outlives somebody else's round", PLANS,
           "when p.round < v.round then 'overtaken'", "when false then 'overtaken'", (STEERING + "test_retry_choice.py",)),
    # ── queues that others broke ─────────────────────────────────────────────────────────────────────────
    Mutant("mending", "a job that stands nowhere is taken for one that rings", "src/lingxi/broker/mending.py",
           " and job_id not in nowhere for", " for", (FUZZ + "test_foreign_jobs.py", "tests/integration/broker/test_queue.py")),
    Mutant("mending", "a sound job goes with a broken one", "src/lingxi/broker/mending.py",
           "gone = broken if broken or keys else list(suspects)", "gone = [*broken, *suspects]",
           (FUZZ + "test_foreign_jobs.py::test_a_sound_job_is_not_removed_when_something_else_is_broken",)),
    Mutant("mending", "counters of jobs are not looked at", "src/lingxi/broker/mending.py",
           "    if any(counter is not None and not _is_count(counter) for counter in counters):\n        return True\n", "",
           (FUZZ + "test_foreign_jobs.py",)),
    # ── the sweep ────────────────────────────────────────────────────────────────────────────────────────
    Mutant("sweep", "live work is swept", SPINE,
           "case when p_worker is null then i.lease_expires_at < clock_timestamp() else", "case when p_worker is null then true else",
           (EXPLORER, SWEEPER)),
    Mutant("sweep", "the sweep does not look again under the lock", SPINE,
           "(not p_only_expired or i.lease_expires_at < clock_timestamp()) as owned", "true as owned",
           ("tests/integration/services/test_races.py", SWEEPER)),
    Mutant("sweep", "a wipe is not seen", "src/lingxi/maintenance/sweeper.py",
           "counts.wiped = found not in known", "counts.wiped = found is Ellipsis",
           (SWEEPER + "::test_a_wiped_redis_gets_its_jobs_back",)),
    Mutant("sweep", "the marker is never written", "src/lingxi/maintenance/sweeper.py",
           "            await self.marker.write(known[-1])\n", "            pass\n", (SWEEPER,)),
    Mutant("sweep", "the marker stays the same, so an old copy bears it too", "src/lingxi/maintenance/sweeper.py",
           "        await self.marker.write(new)\n", "        pass\n", (SWEEPER + "::test_a_restored_old_copy_is_recognised",)),
    Mutant("sweep", "every job is taken for lost", "src/lingxi/maintenance/sweeper.py",
           "if not present.intersection(jobs)]", "if jobs]", (SWEEPER + "::test_what_is_on_its_way_is_not_sent_again",)),
    Mutant("sweep", "what is on its way is sent again", QUERIES + "outbox/requeue_items.sql",
           "e.published_at is null and e.type", "false and e.type", (SWEEPER,)),
    Mutant("sweep", "photo jobs under a lease are put back", QUERIES + "photo_jobs/put_back_stale.sql",
           "then lease_renewed_at < clock_timestamp() - make_interval(secs => $1)", "then $1::float8 is not null",
           (PHOTOS + "test_sweep.py::test_what_is_not_due_or_lives_is_left_alone",)),
    # ── idempotency ──────────────────────────────────────────────────────────────────────────────────────
    Mutant(
        "idempotency",
        "a key belongs to every path",
        "src/lingxi/services/remember_answer.py",
        "return (self.workspace_id, self.method, self.path, self.key)",
        "return (self.workspace_id, self.method, '', self.key)",
        (IDEMPOTENCY + "::test_keys_belong_to_workspace_method_and_path",),
    ),
    Mutant("idempotency", "another body is answered all the same", "src/lingxi/api/changes.py",
           "    if answer.body_sha256 != digest:\n", "    if answer.body_sha256 == b'':\n", (IDEMPOTENCY + "::test_another_body_is_refused",)),
    Mutant("idempotency", "keys live for ten days", "src/lingxi/services/remember_answer.py",
           "REMEMBERED_SECONDS = 24 * 3600", "REMEMBERED_SECONDS = 240 * 3600", (IDEMPOTENCY + "::test_a_key_is_forgotten_after_a_day",)),
    Mutant("idempotency", "the order of members matters", "src/lingxi/api/json_body.py",
           "orjson.dumps(value, option=orjson.OPT_SORT_KEYS)", "orjson.dumps(value)",
           ("tests/unit/api/test_json_body.py", IDEMPOTENCY + "::test_reordered_and_spaced_replays_and_writes_no_row")),
    Mutant("idempotency", "a replay does not say so", "src/lingxi/api/changes.py",
           '{**answer.headers, "Idempotent-Replayed": "true"}', "{**answer.headers}", (IDEMPOTENCY,)),
    Mutant("idempotency", "the key is reserved after the work", "src/lingxi/api/changes.py",
           "                    if await reserve_key(connection, scope, digest)\n", "                    if True\n", (IDEMPOTENCY,)),
    Mutant("idempotency", "no audit row", "src/lingxi/api/changes.py",
           "        if not change.skip_audit:\n", "        if change.skip_audit:\n", (IDEMPOTENCY, "tests/integration/api/test_tasks.py")),
    # ── the stream ───────────────────────────────────────────────────────────────────────────────────────
    Mutant("stream", "an id from the future is believed", "src/lingxi/stream/hub.py",
           "elif isinstance(resume, After) and resume.number <= subject.cursor:", "elif isinstance(resume, After):",
           (RESUME + "::test_an_id_from_the_future_is_answered_with_everything",)),
    Mutant("stream", "any number is an id", "src/lingxi/stream/cursor.py",
           "0|[1-9][0-9]{0,17}", " ?[0-9]{1,17}", (RESUME, "tests/unit/stream")),
    Mutant("stream", "204 for whoever is at the end of an old round", "src/lingxi/stream/hub.py",
           "            if resume.number == subject.cursor and subject.final:\n", "            if subject.final:\n", (RESUME,)),
    Mutant("stream", "the end of an old round ends a new one", "src/lingxi/stream/watcher.py",
           "elif entry.ends > self._seen[0]:", "else:", (RESUME + "::test_old_end_in_the_log_does_not_end_those_that_resume_from_it",)),
    Mutant("stream", "a finished task is answered from memory", "src/lingxi/stream/channel.py",
           "if self.subject is None or self.subject.final:\n            return False\n        return resume", "if self.subject is None:\n            return False\n        return resume", (RESUME,)),
    Mutant("stream", "changes of one number are cut apart", QUERIES + "stream/read_tasks.sql",
           "and (c.last_seq, c.position) > (asked.number, asked.position)", "and c.last_seq > asked.number", (RESUME,)),
    Mutant("stream", "one change too many is skipped", QUERIES + "stream/read_tasks.sql",
           "and (c.last_seq, c.position) > (asked.number, asked.position)",
           "and (c.last_seq, c.position) > (asked.number + 1, asked.position)", (RESUME,)),
    Mutant("stream", "who falls behind is not told the rest", "src/lingxi/stream/watcher.py",
           "        self._behind = True\n        self._offset = self.channel.log.end\n", "        self._offset = self.channel.log.end\n",
           (FAN_OUT + "::test_slow_reader_is_bounded_and_resumes_by_its_sequence", FAN_OUT + "::test_live_readers_that_fall_behind_are_told_each_change_once")),
    Mutant("stream", "access is looked at once", "src/lingxi/stream/hub.py",
           "            if not grants:\n                continue\n", "            if grants:\n                continue\n",
           (FAN_OUT + "::test_revoked_access_ends_the_stream_and_no_other",)),
    Mutant("stream", "another workspace may watch", "src/lingxi/stream/hub.py",
           "subject.gone or subject.workspace_id != workspace_id:", "subject.gone:", (RESUME + "::test_another_workspaces_task_is_not_there",)),
    Mutant("stream", "guests see what is hidden", QUERIES + "stream/read_albums.sql",
           "and (not asked.shared or p.published_at is not null)", "", ("tests/integration/stream/test_album_feed.py",)),
)  # fmt: skip
