// The page of a guest: photos as they are published.
import { plural } from "./api.js";
import { Large } from "./large.js";
import { LiveAlbum } from "./live.js";
import { Store, variant } from "./store.js";
import { Wall } from "./wall.js";

const $ = (id) => document.getElementById(id);
const root = $("album");
// A member may look at this page too, and is told of more than guests are.
const store = new Store((photo) => photo.visibility === "published" && variant(photo, "thumb"));
const wall = new Wall(store, { list: $("wall"), pill: $("pill"), voice: $("voice") });
const large = new Large(store, $("large"), {
  closed: (id) => wall.reveal(id),
  original: ({ id }) => (root.dataset.originals === "true" ? `/api/v1/albums/${root.dataset.album}/photos/${id}/original` : null),
});

let sought = false;
new LiveAlbum(root, [store], {
  changed(fresh) {
    if (!store.told) $("count").textContent = plural(store.photos.length, "photo");
    $("empty").hidden = store.photos.length > 0;
    wall.changed(fresh);
    large.changed();
    if (!store.told && !sought) {
      sought = true; // all is read: the photo that the address names may be on a later page
      large.follow(true);
    }
  },
  album({ name, originalsShared }) {
    root.dataset.originals = String(originalsShared);
    $("name").textContent = name;
    document.title = `${name} · Lingxi`;
  },
  state(state) {
    $("live").dataset.state = state;
    $("live").textContent = state === "live" ? "Live" : "Connecting again …";
  },
  over() {
    large.hide();
    document.title = "Album closed · Lingxi";
    root.hidden = true;
    $("pill").hidden = true;
    store.keepOnly(new Set());
    wall.changed();
    $("over").hidden = false;
    $("over").focus();
  },
});
large.follow(true);
