// The page of the photographer: upload, see what guests see, steer.
import { bytes, call, element, plural } from "./api.js";
import { Large } from "./large.js";
import { LiveAlbum } from "./live.js";
import { Shares } from "./shares.js";
import { Store, moment } from "./store.js";
import { UploadPanel } from "./upload-panel.js";
import { Wall } from "./wall.js";
import { waterfall } from "./waterfall.js";

const $ = (id) => document.getElementById(id);
const root = $("album");
const steers = root.dataset.steers === "true";
const address = `/api/v1/albums/${root.dataset.album}`;
const failed = ({ processingState, visibility }) => processingState === "processing_failed" && visibility !== "recalled";
const store = new Store((photo) => photo.visibility !== "recalled" && !failed(photo));
const failures = new Store(failed);
const wall = new Wall(store, { list: $("wall"), decorate });
const large = new Large(store, $("large"), { closed: (id) => wall.reveal(id), details });

let sought = false;
const live = new LiveAlbum(root, [store, failures], {
  changed() {
    wall.changed(); // who uploads knows what comes: nothing is announced
    large.changed();
    if (!store.told && !sought) {
      sought = true; // all is read: the photo that the address names may be on a later page
      large.follow(true);
    }
    showCounts();
    showFailures();
  },
  album({ name, originalsShared }) {
    $("name").textContent = name;
    document.title = `${name} · Lingxi`;
    if ($("originals")) $("originals").checked = originalsShared;
  },
  state(state) {
    $("live").dataset.state = state;
    $("live").textContent = state === "live" ? "Live" : "Connecting again …";
  },
  over(status) {
    large.hide();
    $("live").dataset.state = "over";
    $("live").textContent = status === 404 ? "This album was deleted" : "Signed out";
    tell(status === 404 ? "This album is not there any more." : "You are signed out. Reload the page to sign in again.");
  },
});
large.follow(true);
if (steers) {
  new UploadPanel(root.dataset.album, $("uploads"), $("drop"));
  const shares = new Shares(address, $("shares"));
  $("share").onclick = () => shares.open();
  $("rename").onclick = () => rename();
  $("delete-album").onclick = () => deleteAlbum();
  $("originals").onchange = ({ target }) => attempt(() => call("PATCH", address, { originalsShared: target.checked }));
}

function showCounts() {
  if (store.told) return; // the document has the number until all photos are read
  const of = (wanted) => store.photos.filter(wanted).length;
  const parts = [plural(of(({ visibility }) => visibility === "published"), "photo") + " published"];
  const processing = of(({ processingState }) => processingState === "uploaded");
  const hidden = of(({ visibility }) => visibility === "hidden");
  if (processing) parts.push(`${processing.toLocaleString("en")} on the way`);
  if (hidden) parts.push(`${hidden.toLocaleString("en")} hidden`);
  if (failures.photos.length) parts.push(`${failures.photos.length.toLocaleString("en")} could not be published`);
  $("count").textContent = parts.join(" · ");
  const bare = store.photos.length + failures.photos.length === 0;
  $("empty").hidden = !bare;
  $("drop")?.classList.toggle("first", bare);
}

function showFailures() {
  $("failures").hidden = failures.photos.length === 0;
  $("failed").replaceChildren(...failures.photos.map((photo) => element("li", { "data-id": photo.id },
    element("span", { class: "file" }, photo.fileName),
    element("span", { class: "words" }, photo.error?.advice ?? photo.error?.message ?? "It could not be processed."),
    steers ? element("button", { class: "small", type: "button", onclick: () => remove(photo) }, "Remove") : null)));
}

// ── tiles ──
function decorate(tile, photo) {
  tile.dataset.visibility = photo.visibility;
  tile.dataset.processing = photo.processingState;
  if (photo.processingState === "uploaded") tile.append(element("span", { class: "badge" }, "On the way …"));
  else if (photo.visibility === "hidden") tile.append(element("span", { class: "badge" }, "Hidden"));
  if (!steers || photo.processingState !== "ready") return;
  const verb = photo.visibility === "hidden" ? "show" : "hide";
  const words = verb === "show" ? "Show" : "Hide";
  tile.append(element("button", {
    class: "on-tile", type: "button", "data-role": "toggle", "aria-label": `${words} ${photo.fileName}`, onclick: () => steer(photo, verb),
  }, words));
}

// ── the panel beside the large photo ──
function details(photo) {
  const facts = [
    ["Taken", photo.capturedAt && moment(photo.capturedAt)], ["Uploaded", moment(photo.createdAt)],
    ["Size", [photo.width && `${photo.width} × ${photo.height}`, photo.sizeBytes && bytes(photo.sizeBytes)].filter(Boolean).join(" · ")],
    ["Guests", { published: "see it", hidden: "do not see it", unpublished: "will see it soon" }[photo.visibility]],
  ];
  $("facts").replaceChildren(...facts.filter(([, value]) => value).map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))));
  const hidden = photo.visibility === "hidden";
  const button = (words, work, kind = "") => element("button", { type: "button", class: `small ${kind}`, onclick: work }, words);
  $("acts").replaceChildren(...(steers ? [
    button(hidden ? "Show to guests" : "Hide from guests", () => steer(photo, hidden ? "show" : "hide")),
    element("a", { class: "button small", href: `${address}/photos/${photo.id}/original`, download: photo.fileName }, "Original"),
    button("Recall …", () => recall(photo), "danger"),
    button("Delete …", () => remove(photo), "danger"),
  ] : []));
  showTimeline(photo);
}

async function showTimeline(photo) {
  try {
    const { stages } = await call("GET", `${address}/photos/${photo.id}/timeline`);
    const times = Object.fromEntries(stages.map(({ stage, at }) => [stage, at]));
    if (large.shown?.id === photo.id) $("timeline").replaceChildren(waterfall(times));
  } catch {
    $("timeline").replaceChildren(); // the chart is an extra: the next change of the photo asks again
  }
}

// ── changes ──
async function attempt(work) {
  tell("");
  try {
    return await work();
  } catch (error) {
    tell(error.message);
    return null;
  }
}

function tell(sentence) {
  for (const place of [$("problem"), large.dialog.querySelector(".said")]) {
    place.textContent = sentence;
    place.hidden = !sentence;
  }
}

async function steer(photo, verb) {
  const now = await attempt(() => call("POST", `${address}/photos/${photo.id}/${verb}`));
  if (now?.id) live.show([{ event: "photo", data: now }]);
}

async function recall(photo) {
  const sure = await ask(`Recall ${photo.fileName}?`, "It disappears for all guests at once and its pictures are removed. This cannot be undone.", "Recall");
  if (sure) await steer(photo, "recall");
}

async function remove(photo) {
  const sure = await ask(`Delete ${photo.fileName}?`, "The photo and its original are removed. This cannot be undone.", "Delete");
  if (!sure) return;
  const gone = await attempt(async () => {
    await call("DELETE", `${address}/photos/${photo.id}`);
    return true;
  });
  if (gone) live.show([{ event: "removed", data: { id: photo.id } }]);
}

async function rename() {
  const dialog = $("renaming");
  const input = dialog.querySelector("input");
  input.value = $("name").textContent;
  if (!(await answered(dialog))) return;
  const album = await attempt(() => call("PATCH", address, { name: input.value.trim() }));
  if (album) live.album(album);
}

async function deleteAlbum() {
  const sure = await ask(`Delete the album “${$("name").textContent}”?`, "All its photos and originals are removed, and every share link ends. This cannot be undone.", "Delete album");
  if (!sure) return;
  const gone = await attempt(async () => {
    await call("DELETE", address);
    return true;
  });
  if (gone) location.href = "/albums";
}

function ask(question, consequence, verb) {
  const dialog = $("asking");
  dialog.querySelector("h2").textContent = question;
  dialog.querySelector("p").textContent = consequence;
  dialog.querySelector("[value=yes]").textContent = verb;
  return answered(dialog);
}

function answered(dialog) {
  dialog.returnValue = "";
  const cancel = dialog.querySelector("[data-act=cancel]");
  if (cancel) cancel.onclick = () => dialog.close();
  dialog.showModal();
  return new Promise((done) => dialog.addEventListener("close", () => done(dialog.returnValue === "yes"), { once: true }));
}
