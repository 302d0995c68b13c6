// What the photographer sees of uploads: one bar for all, what is under way, and a sentence for each that was not taken.
import { bytes, element, plural } from "./api.js";
import { Uploads, chosenFiles, droppedFiles } from "./uploads.js";

const SHOWN_AT_ONCE = 6;
const UNDER_WAY = { sending: "Uploading", lost: "Waiting for the connection", paused: "Paused", waiting: "Waits its turn" };

export class UploadPanel {
  constructor(albumId, panel, zone) {
    this.part = (name) => panel.querySelector(`[data-part=${name}]`);
    this.panel = panel;
    this.rows = new Map();
    this.uploads = new Uploads(albumId, () => this.soon());
    this.part("pause").onclick = () => (this.uploads.paused ? this.uploads.resume() : this.uploads.pause());
    this.part("clear").onclick = () => this.clear();
    for (const input of zone.querySelectorAll("input[type=file]")) {
      input.onchange = () => {
        this.uploads.add(chosenFiles(input.files));
        input.value = ""; // so that choosing the same again is a change
      };
    }
    this.drops();
    addEventListener("beforeunload", (event) => { if (this.uploads.busy) event.preventDefault(); });
  }

  drops() {
    const carriesFiles = (event) => event.dataTransfer?.types.includes("Files");
    let inside = 0;
    const mark = (by) => document.body.classList.toggle("dropping", (inside = Math.max(0, inside + by)) > 0);
    addEventListener("dragenter", (event) => { if (carriesFiles(event)) mark(1); });
    addEventListener("dragleave", (event) => { if (carriesFiles(event)) mark(-1); });
    addEventListener("dragover", (event) => { if (carriesFiles(event)) event.preventDefault(); });
    addEventListener("drop", async (event) => {
      if (!carriesFiles(event)) return;
      event.preventDefault();
      mark(-inside);
      this.uploads.add(await droppedFiles(event.dataTransfer));
    });
  }

  clear() {
    this.uploads.items = this.uploads.items.filter(({ state }) => !["done", "same", "refused"].includes(state));
    this.soon();
  }

  soon() {
    this.planned ??= setTimeout(() => {
      this.planned = null;
      this.draw();
    }, 60);
  }

  draw() {
    const { items, paused, busy } = this.uploads;
    this.panel.hidden = items.length === 0;
    const of = (state) => items.filter((item) => item.state === state);
    const [done, same, refused] = ["done", "same", "refused"].map((state) => of(state).length);
    const total = items.reduce((sum, { file }) => sum + file.size, 0);
    const sent = items.reduce((sum, { state, sent: some, file }) => sum + (["done", "same", "refused"].includes(state) ? file.size : some), 0);
    this.part("bar").value = total ? sent / total : 0;
    this.part("bar").classList.toggle("complete", !busy);
    const outcome = [`${done + same} of ${plural(items.length, "file")} uploaded`];
    if (same) outcome.push(`${same === 1 ? "one was" : `${same} were`} in the album already`);
    if (refused) outcome.push(`${refused} could not be taken`);
    this.write("sum", `${outcome.join(", ")}.`);
    this.write("amount", busy ? `${bytes(sent)} of ${bytes(total)}` : bytes(total));
    const title = paused && busy ? "Paused" : of("lost").length ? "Waiting for the connection" : busy ? "Uploading" : "Done";
    this.write("title", title);
    this.part("pause").hidden = !busy;
    this.part("pause").textContent = paused ? "Resume" : "Pause";
    this.part("clear").hidden = busy;
    const active = items.filter(({ state }) => state in UNDER_WAY && state !== "waiting");
    const waiting = of("waiting");
    const shown = [...of("refused"), ...of("same"), ...active, ...waiting].slice(0, SHOWN_AT_ONCE + refused + Math.min(same, SHOWN_AT_ONCE));
    this.list(shown);
    const more = waiting.filter((item) => !shown.includes(item)).length;
    this.write("more", more ? `and ${plural(more, "more file")} after these` : "");
    this.part("more").hidden = !more;
  }

  write(part, text) {
    if (this.part(part).textContent !== text) this.part(part).textContent = text;
  }

  list(items) {
    const kept = new Set(items);
    for (const [item, row] of this.rows) {
      if (kept.has(item)) continue;
      row.remove();
      this.rows.delete(item);
    }
    for (const item of items) {
      const row = this.rows.get(item) ?? this.row(item);
      row.dataset.state = item.state;
      row.querySelector("progress").hidden = !(item.state in UNDER_WAY);
      row.querySelector("progress").value = item.sent / (item.file.size || 1);
      const same = item.state === "same" ? "This photo is in the album already; nothing was added twice." : "";
      const words = item.sentence || same || `${UNDER_WAY[item.state] ?? ""} · ${bytes(item.file.size)}`;
      if (row.lastChild.textContent !== words) row.lastChild.textContent = words;
    }
  }

  row(item) {
    const row = element("li", {},
      element("span", { class: "file", title: item.file.name }, item.file.name),
      element("progress", { max: 1, value: 0, "aria-label": `Upload of ${item.file.name}` }),
      element("span", { class: "words" }));
    this.rows.set(item, row);
    this.part("list").append(row);
    return row;
  }
}
