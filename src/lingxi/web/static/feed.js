// Follows an album. One stream for all tabs of a browser: the tab that holds the lock reads it and passes on what it hears; when
// that tab closes, the next one takes over from the last number that it has seen itself, so nothing is missed.
import { readFrames } from "./frames.js";

const SILENCE_MS = 40_000; // heartbeats come every 15 s
const STALE_MS = 20_000; // after a sleep: do not wait for the silence to be certain
const ANSWER_MS = 6_000; // a leading tab that does not answer for so long is frozen
const FIRST_RETRY_MS = 500;
const LONGEST_RETRY_MS = 15_000;
const VERSION = new URL(import.meta.url).pathname; // tabs of before and after an update do not talk to each other
const REMEMBERED = 3_000; // frames kept for tabs that join later

export class Feed {
  // `access` keeps tabs of members and of guests apart. `show(frames)`: what happened, in order. `resync()`: read everything anew
  // and answer the album's number. `state("live" | "waiting")`. `over(status)`: this album is not to be had any more.
  constructor({ albumId, access, cursor, show, resync, state, over }) {
    this.address = `/api/v1/albums/${albumId}/events`;
    this.name = `lingxi-feed-${access}-${albumId}-${VERSION}`;
    Object.assign(this, { cursor, show, resync, state, over });
    this.me = Math.random().toString(36).slice(2);
    this.leading = this.ended = false;
    this.syncing = null;
    this.queue = [];
    this.log = [];
    this.logStart = cursor;
  }

  start() {
    this.channel = new BroadcastChannel(this.name);
    this.channel.onmessage = ({ data }) => this.heardFromTab(data);
    this.compete(false);
    this.hello();
    const awake = () => { if (!document.hidden) this.wake(); };
    document.addEventListener("visibilitychange", awake);
    document.addEventListener("resume", awake);
    addEventListener("pageshow", awake);
    addEventListener("online", () => { if (this.leading) this.reconnect(); }); // connections seldom outlive their network
    setInterval(() => { if (this.leading && Date.now() - this.lastHeard > SILENCE_MS) this.reconnect(); }, 5_000);
  }

  // ── who reads the stream ──
  compete(steal) {
    const lead = () => this.lead();
    // Browsers offer locks only over https and on this machine: elsewhere each tab has a stream of its own.
    if (!navigator.locks) lead();
    else navigator.locks.request(this.name, { steal }, lead).catch(() => this.stolen());
  }

  stolen() {
    this.leading = false;
    this.abort?.abort();
    if (!this.ended) this.compete(false);
  }

  hello() {
    if (this.leading || this.ended || !navigator.locks) return;
    this.channel.postMessage({ kind: "hello", from: this.me, cursor: this.cursor });
    clearTimeout(this.unanswered);
    this.unanswered = setTimeout(() => { if (!this.leading && !this.ended && !document.hidden) this.compete(true); }, ANSWER_MS);
  }

  heardFromTab(message) {
    if (message.to && message.to !== this.me) return;
    if (message.kind === "hello" && this.leading) this.answer(message);
    else if (message.kind === "lead") this.hello();
    else if (this.leading) return;
    else if (message.kind === "over") this.end(message.status);
    else if (message.kind === "stale") this.readAnew();
    else if (message.kind === "frames") this.take(message.frames);
    if (message.kind === "frames" || message.kind === "stale") clearTimeout(this.unanswered);
    if (message.state) this.state(message.state);
  }

  answer({ from, cursor }) {
    const told = { to: from, state: this.live ? "live" : "waiting" };
    if (cursor < this.logStart) this.channel.postMessage({ kind: "stale", ...told });
    else this.channel.postMessage({ kind: "frames", frames: this.log.filter(({ id }) => id > cursor), ...told });
  }

  tell(message) {
    if (navigator.locks) this.channel.postMessage({ ...message, state: this.live ? "live" : "waiting" });
  }

  // ── the stream ──
  async lead() {
    this.leading = true;
    clearTimeout(this.unanswered);
    this.log = [];
    this.logStart = this.cursor;
    this.tell({ kind: "lead" });
    for (let wait = FIRST_RETRY_MS; this.leading && !this.ended;) {
      await this.read().catch(() => {}); // cut, refused or aborted: all mean to connect again
      if (!this.leading || this.ended) break;
      wait = this.live ? FIRST_RETRY_MS : Math.min(2 * wait, LONGEST_RETRY_MS);
      this.setLive(false);
      await this.pause(wait * (0.5 + Math.random()));
    }
  }

  // Reads until the stream ends. A refusal for good ends the feed.
  async read() {
    this.abort = new AbortController();
    this.lastHeard = Date.now();
    if (this.syncing) await this.syncing;
    const answer = await fetch(`${this.address}?lastEventId=${this.cursor}`, {
      signal: this.abort.signal, cache: "no-store", headers: { Accept: "text/event-stream" },
    });
    if ([401, 403, 404].includes(answer.status)) this.end(answer.status);
    if (!answer.ok || !answer.body) return;
    this.setLive(true);
    for await (const frame of readFrames(answer.body, () => { this.lastHeard = Date.now(); })) {
      if (frame.event === "closing") return;
      if (frame.event === "reset") await this.startOver();
      else this.pass(frame);
    }
  }

  pass(frame) {
    this.log.push(frame);
    if (this.log.length > 2 * REMEMBERED) {
      const forgotten = this.log.splice(0, REMEMBERED);
      this.logStart = forgotten.findLast(({ id }) => id !== null)?.id ?? this.logStart;
    }
    this.take([frame]);
    this.tell({ kind: "frames", frames: [frame] });
  }

  async startOver() {
    this.log = [];
    await this.readAnew();
    this.logStart = this.cursor;
    this.tell({ kind: "stale" });
  }

  // ── what this tab has seen ──
  take(frames) {
    if (this.syncing) {
      this.queue.push(...frames);
      return;
    }
    const fresh = frames.filter(({ id }) => id === null || id > this.cursor);
    for (const { id } of fresh) if (id !== null) this.cursor = id;
    if (fresh.length) this.show(fresh);
  }

  readAnew() {
    this.syncing ??= this.readAll().finally(() => {
      this.syncing = null;
      this.take(this.queue.splice(0));
    });
    return this.syncing;
  }

  async readAll() {
    for (let wait = FIRST_RETRY_MS; !this.ended; wait = Math.min(2 * wait, LONGEST_RETRY_MS)) {
      try {
        this.cursor = await this.resync();
        return;
      } catch (error) {
        if ([401, 403, 404].includes(error.status)) this.end(error.status);
        else await this.pause(wait);
      }
    }
  }

  // ── sleeping and waking ──
  wake() {
    if (!this.leading) this.hello();
    else if (!this.live || Date.now() - this.lastHeard > STALE_MS) this.reconnect();
  }

  reconnect() {
    this.lastHeard = Date.now();
    this.abort?.abort();
    this.goOn?.();
  }

  pause(milliseconds) {
    return new Promise((done) => {
      const timer = setTimeout(done, milliseconds);
      this.goOn = () => { clearTimeout(timer); done(); };
    });
  }

  setLive(live) {
    if (this.live === live) return;
    this.live = live;
    this.state(live ? "live" : "waiting");
    this.tell({ kind: "state" });
  }

  end(status) {
    if (this.ended) return;
    this.ended = true;
    if (this.leading) this.tell({ kind: "over", status });
    this.leading = false;
    this.abort?.abort();
    this.over(status);
  }
}
