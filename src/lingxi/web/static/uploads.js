// Uploads that survive a lost connection: tus 1.0, in pieces, resumed from where the server says it is.
import { call, refusal } from "./api.js";

const CHUNK_BYTES = 4 * 2 ** 20;
const AT_ONCE = 3;
const LONGEST_WAIT_MS = 20_000;
const MOVES = 3;
const TUS = { "Tus-Resumable": "1.0.0" };
const UNREADABLE = "The file cannot be read any more: it was moved, changed or deleted since you chose it.";
const RECALLED = "This photo was recalled from this album, which is for good: it is not shown again.";
const HIDDEN = "This photo is in the album already, and hidden from guests.";
const DELETED = "This photo was deleted from the album in the same moment. Upload it again.";
const LOST = "The connection was lost. The upload goes on by itself when it is back.";

export class Uploads {
  // `changed()` after each change of an item; `items` are {file, state, sent, sentence} with the states waiting, sending, lost,
  // paused, done, same (the album had it already) and refused.
  constructor(albumId, changed) {
    this.album = `/api/v1/albums/${albumId}`;
    this.address = `${this.album}/uploads`;
    this.changed = changed;
    this.items = [];
    this.paused = false;
    this.running = 0;
    addEventListener("online", () => this.hurry());
  }

  add(files) {
    for (const file of files) this.items.push({ file, state: "waiting", sent: 0, sentence: "", url: this.remembered(file) });
    this.go();
  }

  get busy() {
    return this.items.some(({ state }) => ["waiting", "sending", "lost", "paused"].includes(state));
  }

  pause() {
    this.paused = true;
    for (const item of this.items) if (item.state === "sending" || item.state === "lost") this.set(item, "paused");
    for (const item of this.items) item.stop?.();
  }

  resume() {
    this.paused = false;
    for (const item of this.items) if (item.state === "paused") this.set(item, "waiting");
    this.go();
  }

  hurry() {
    for (const item of this.items) if (item.state === "lost") item.stop?.();
  }

  go() {
    this.changed();
    while (!this.paused && this.running < AT_ONCE) {
      const item = this.items.find(({ state }) => state === "waiting");
      if (!item) return;
      this.running += 1;
      this.set(item, "sending");
      this.run(item).finally(() => {
        this.running -= 1;
        this.go();
      });
    }
  }

  set(item, state, sentence = "") {
    Object.assign(item, { state, sentence });
    this.changed();
  }

  // ── one file ──
  async run(item) {
    if (item.file.size === 0) {
      this.set(item, "refused", "The file is empty.");
      return;
    }
    let moved = 0;
    for (let wait = 1_000; ; wait = Math.min(2 * wait, LONGEST_WAIT_MS)) {
      try {
        await this.send(item, () => { wait = 1_000; });
        return;
      } catch (error) {
        if (item.state === "paused") return;
        if (error.status === 0 && !(await readable(item.file))) error = Object.assign(new Error(UNREADABLE), { status: 400 });
        if (isFinal(error)) {
          this.forget(item);
          this.set(item, "refused", error.message);
          return;
        }
        if (error.status === 409 && moved++ < MOVES) continue; // the server is elsewhere: an answer was lost, so ask where
        this.set(item, "lost", error.status && error.status !== 409 ? error.message : LOST);
        await new Promise((done) => {
          const timer = setTimeout(done, error.retryAfter ?? wait);
          item.stop = () => { clearTimeout(timer); done(); };
        });
        if (this.paused) return;
      }
    }
  }

  async send(item, progress) {
    let at = item.url ? await this.offset(item) : null;
    at ??= await this.create(item);
    if (item.state === "lost") this.set(item, "sending");
    while (at < item.file.size) {
      at = await this.patch(item, at);
      progress();
    }
    const known = item.created === "false" ? await this.known(item) : ["done"];
    this.forget(item);
    this.set(item, ...known);
  }

  // What to say of a file whose bytes the album had: what became of their photo.
  async known(item) {
    try {
      const { visibility, processingState } = await call("GET", `${this.album}/photos/${item.photo}`);
      if (visibility === "recalled") return ["refused", RECALLED];
      if (visibility === "hidden") return ["same", HIDDEN];
      return processingState === "uploaded" ? ["done"] : ["same"]; // one that had failed is processed anew
    } catch (error) {
      if (error.status === 404) return ["refused", DELETED];
      throw error;
    }
  }

  async create(item) {
    const answer = await this.ask(item, "POST", this.address, {
      "Upload-Length": String(item.file.size), "Upload-Metadata": `filename ${base64(item.file.name)}`,
    });
    item.url = new URL(answer.header("Location"), location.href).pathname;
    item.sent = 0;
    this.remember(item);
    return 0;
  }

  // Where the server is; null when it knows nothing of this upload any more.
  async offset(item) {
    try {
      const answer = await this.ask(item, "HEAD", item.url, {});
      const at = Number(answer.header("Upload-Offset"));
      item.sent = at;
      return at;
    } catch (error) {
      if (error.status !== 404 && error.status !== 410) throw error;
      item.url = null;
      return null;
    }
  }

  async patch(item, at) {
    const piece = item.file.slice(at, at + CHUNK_BYTES);
    const headers = { "Upload-Offset": String(at), "Content-Type": "application/offset+octet-stream" };
    const answer = await this.ask(item, "PATCH", item.url, headers, piece, (sent) => {
      item.sent = at + sent;
      this.changed();
    });
    item.sent = Number(answer.header("Upload-Offset"));
    return item.sent;
  }

  // One request. XMLHttpRequest, as fetch does not tell how much of a body has been sent.
  ask(item, method, url, headers, body = null, progress = null) {
    return new Promise((resolve, reject) => {
      const request = new XMLHttpRequest();
      request.open(method, url);
      for (const [name, value] of Object.entries({ ...TUS, ...headers })) request.setRequestHeader(name, value);
      if (progress) request.upload.onprogress = ({ loaded }) => progress(loaded);
      request.onload = () => {
        const header = (name) => request.getResponseHeader(name);
        item.created = header("Lingxi-Photo-Created") ?? item.created;
        item.photo = header("Lingxi-Photo-Id") ?? item.photo;
        if (request.status < 400) resolve({ header });
        else {
          const seconds = Number(header("Retry-After"));
          reject(Object.assign(refusal(request.status, request.responseText), seconds ? { retryAfter: seconds * 1_000 } : {}));
        }
      };
      request.onerror = request.onabort = () => reject(Object.assign(new Error(LOST), { status: 0 }));
      item.stop = () => request.abort();
      request.send(body);
    });
  }

  // ── what is under way is remembered, so that choosing the same file again after a reload resumes ──
  remembered(file) {
    try {
      return localStorage.getItem(this.key(file));
    } catch {
      return null; // storage is switched off
    }
  }

  remember(item) {
    try {
      localStorage.setItem(this.key(item.file), item.url);
    } catch {
      // then a reload starts anew
    }
  }

  forget(item) {
    item.url = null;
    try {
      localStorage.removeItem(this.key(item.file));
    } catch {
      // nothing was remembered
    }
  }

  key(file) {
    return `lingxi-upload ${this.address} ${file.size} ${file.lastModified} ${file.name}`;
  }
}

// Waiting helps against a lost connection (0), a server that is away (5xx) or busy (408, 423, 429), an offset that moved (409), and
// a session that is over (401), as one signs in again in another tab.
const isFinal = ({ status }) => status >= 400 && status < 500 && ![401, 408, 409, 423, 429].includes(status);

// A file that was moved, changed or deleted since it was chosen fails like a lost connection does.
const readable = (file) => file.slice(0, 1).arrayBuffer().then(() => true, () => false);

function base64(text) {
  return btoa(Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join(""));
}

// ── what was dropped or chosen ──
const JUNK = /^(\..*|thumbs\.db|desktop\.ini)$/i;
const order = new Intl.Collator(undefined, { numeric: true });

// All files of a drop, folders included, in the order of their names.
export async function droppedFiles(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.length) return chosenFiles(transfer.files);
  const found = await Promise.all(entries.map(walk));
  return found.flat().filter(({ file }) => !JUNK.test(file.name)).sort((a, b) => order.compare(a.path, b.path)).map(({ file }) => file);
}

export function chosenFiles(files) {
  const path = (file) => file.webkitRelativePath || file.name;
  return [...files].filter((file) => !JUNK.test(file.name)).sort((a, b) => order.compare(path(a), path(b)));
}

async function walk(entry) {
  if (entry.isFile) {
    const file = await new Promise((done) => entry.file(done, () => done(null)));
    return file ? [{ file, path: entry.fullPath }] : [];
  }
  const reader = entry.createReader();
  const found = [];
  for (;;) {
    const some = await new Promise((done) => reader.readEntries(done, () => done([]))); // at most a hundred at a time
    if (!some.length) return found;
    found.push(...(await Promise.all(some.map(walk))).flat());
  }
}
