// A wall of photos in even rows. Only what is near the window has elements, so that thousands of photos cost what dozens do; what
// comes in above moves nothing that one is looking at.
import { element, plural } from "./api.js";
import { nameOf, variant } from "./store.js";

const NARROWEST = 0.56; // a tile's width to its height: panoramas and tall strips are cut in the wall, and whole when opened
const WIDEST = 2.6;
const AHEAD_SCREENS = 1.25;
const SPEAK_EVERY_MS = 4_000;
const RETRIES_MS = [1_000, 4_000, 15_000];
const SHARPEST = 2; // more pixels than two to one are not worth their bytes in a wall

export class Wall {
  // `list`: the <ul>; `pill`: the button that tells of new photos out of sight; `voice`: the live region that tells of them aloud;
  // `decorate(tile, photo)` adds what only members see.
  constructor(store, { list, pill, voice, decorate }) {
    Object.assign(this, { store, list, pill, voice, decorate });
    this.rows = [];
    this.tiles = new Map();
    this.unseen = new Set();
    this.spoken = 0;
    list.replaceChildren();
    list.classList.add("placed");
    addEventListener("scroll", () => this.scrolled(), { passive: true });
    new ResizeObserver(() => { if (this.list.clientWidth !== this.width) this.changed(); }).observe(list);
    if (pill) pill.onclick = () => this.goToUnseen();
  }

  // The store has changed; `fresh` are ids of photos that were not there before.
  changed(fresh = []) {
    for (const id of fresh) this.unseen.add(id);
    if (fresh.length) this.speak(fresh.length);
    this.stale = true;
    this.soon();
  }

  soon() {
    this.planned ??= requestAnimationFrame(() => {
      this.planned = null;
      if (this.stale) this.layOutKeepingPlace();
      this.draw();
    });
  }

  scrolled() {
    if (!this.moving) this.held = null; // by a person: another photo is the one that must not move
    this.moving = false;
    this.soon();
  }

  // ── layout ──
  layOutKeepingPlace() {
    const anchor = (this.held = this.anchor());
    this.layOut();
    this.stale = false;
    const place = anchor && this.placeOf(anchor.id);
    if (place) {
      const shift = this.top() + place.top - anchor.above;
      if (Math.abs(shift) < 1) return;
      this.moving = true;
      scrollBy({ top: shift, behavior: "instant" });
    }
  }

  // The photo that keeps its place, and how far it is below the window's upper edge: the first one in sight, and the same one until
  // somebody scrolls, as each change may put it into another row. At the wall's head nothing is held.
  anchor() {
    if (!this.rows.length || this.top() > -8) return null;
    if (this.held && this.store.byId.has(this.held.id)) return this.held;
    const top = this.top();
    const row = this.rows[this.rowAt(-top)];
    const seen = row?.cells.find(({ id }) => this.store.byId.has(id));
    return seen ? { id: seen.id, above: top + row.top } : null;
  }

  layOut() {
    this.width = this.list.clientWidth;
    const small = this.width < 600;
    const gap = small ? 4 : 8;
    const wanted = small ? Math.min(190, this.width / 2.1) : Math.min(300, 190 + this.width / 14);
    this.rows = [];
    this.rowOf = new Map();
    let cells = [];
    let aspects = 0;
    let top = 0;
    const close = (height) => {
      let left = 0;
      for (const cell of cells) {
        Object.assign(cell, { left, width: cell.aspect * height });
        left += cell.width + gap;
        this.rowOf.set(cell.id, this.rows.length);
      }
      this.rows.push({ top, height, cells });
      top += height + gap;
      cells = [];
      aspects = 0;
    };
    this.store.photos.forEach((photo, index) => {
      const aspect = Math.min(WIDEST, Math.max(NARROWEST, (photo.width ?? 4) / (photo.height ?? 3)));
      cells.push({ id: photo.id, index, aspect });
      aspects += aspect;
      const height = (this.width - gap * (cells.length - 1)) / aspects;
      if (height <= wanted) close(height);
    });
    if (cells.length) close(Math.min(wanted, (this.width - gap * (cells.length - 1)) / aspects));
    this.list.style.height = `${Math.max(0, top - gap)}px`;
  }

  top() {
    return this.list.getBoundingClientRect().top;
  }

  placeOf(id) {
    const row = this.rows[this.rowOf?.get(id)];
    const cell = row?.cells.find((one) => one.id === id);
    return cell ? { ...cell, top: row.top, height: row.height } : null;
  }

  // The first row whose lower edge is below `y`.
  rowAt(y) {
    let low = 0;
    let high = this.rows.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.rows[middle].top + this.rows[middle].height < y) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // ── elements ──
  draw() {
    const top = -this.top();
    const ahead = innerHeight * AHEAD_SCREENS;
    const wanted = new Map();
    for (let at = this.rowAt(top - ahead); at < this.rows.length && this.rows[at].top < top + innerHeight + ahead; at++) {
      const row = this.rows[at];
      for (const cell of row.cells) wanted.set(cell.id, { ...cell, top: row.top, height: row.height });
      if (row.top + row.height / 2 > top && row.top + row.height / 2 < top + innerHeight) {
        for (const { id } of row.cells) this.unseen.delete(id);
      }
    }
    const held = document.activeElement?.closest?.("li.tile")?.dataset.id;
    if (held && this.store.byId.has(held)) wanted.set(held, this.placeOf(held));
    for (const [id, tile] of this.tiles) {
      if (wanted.has(id)) continue;
      tile.remove();
      this.tiles.delete(id);
    }
    let previous = null;
    for (const [id, place] of [...wanted].sort(([, a], [, b]) => a.index - b.index)) {
      const tile = this.tile(this.store.byId.get(id));
      this.put(tile, place);
      const next = previous ? previous.nextSibling : this.list.firstChild;
      if (tile !== next) this.list.insertBefore(tile, next);
      previous = tile;
    }
    if (this.pill) this.showPill(top);
  }

  tile(photo) {
    let tile = this.tiles.get(photo.id);
    if (!tile) {
      tile = element("li", { class: "tile", "data-id": photo.id });
      this.tiles.set(photo.id, tile);
    }
    if (tile.photo !== photo) {
      tile.photo = photo;
      const held = tile.contains(document.activeElement) && document.activeElement.dataset.role;
      tile.replaceChildren(this.link(photo));
      this.decorate?.(tile, photo);
      if (held) tile.querySelector(`[data-role="${held}"]`)?.focus({ preventScroll: true });
    }
    return tile;
  }

  link(photo) {
    const thumb = variant(photo, "thumb");
    const browse = variant(photo, "browse");
    const name = nameOf(photo);
    const link = element("a", { href: `#${photo.id}`, "data-role": "open" });
    if (!thumb || !browse) {
      link.append(element("span", { class: "sr" }, name));
      return link;
    }
    const image = element("img", {
      alt: name, width: thumb.width, height: thumb.height, loading: "lazy", decoding: "async",
      onload: () => image.classList.add("shown"), onerror: () => this.again(image, thumb.url),
    });
    image.srcset = `${thumb.url} ${thumb.width}w, ${browse.url} ${browse.width}w`;
    link.append(image);
    return link;
  }

  // A picture that did not come is asked for again: the connection may have been cut in the middle of it.
  again(image, url) {
    const tries = Number(image.dataset.tries ?? 0) + 1;
    image.dataset.tries = tries;
    if (tries > RETRIES_MS.length) return;
    setTimeout(() => {
      image.removeAttribute("srcset");
      image.src = url;
    }, RETRIES_MS[tries - 1]);
  }

  put(tile, { index, left, top, width, height }) {
    Object.assign(tile.style, { transform: `translate(${left}px, ${top}px)`, width: `${width}px`, height: `${height}px` });
    tile.setAttribute("aria-posinset", index + 1);
    tile.setAttribute("aria-setsize", this.store.photos.length);
    const image = tile.querySelector("img");
    if (image) {
      image.sizes = `${Math.ceil(width * Math.min(1, SHARPEST / devicePixelRatio))}px`;
      if (!image.src) image.src = variant(tile.photo, "thumb").url;
    }
  }

  // ── what came while one was looking elsewhere ──
  showPill(top) {
    const places = [...this.unseen].map((id) => this.placeOf(id)).filter(Boolean);
    for (const id of this.unseen) if (!this.store.byId.has(id)) this.unseen.delete(id);
    this.pill.hidden = places.length === 0;
    if (!places.length) return;
    this.next = Math.min(...places.map((place) => place.top));
    const below = places.filter((place) => place.top > top).length;
    this.pill.textContent = `${plural(places.length, "new photo")} ${below ? "↓" : "↑"}`;
    this.pill.setAttribute("aria-label", `${plural(places.length, "new photo")}: go there`);
    if (below) this.next = Math.min(...places.map((place) => place.top).filter((one) => one > top));
  }

  goToUnseen() {
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    scrollBy({ top: this.top() + this.next - 88, behavior: still ? "instant" : "smooth" });
  }

  reveal(id) {
    const place = this.placeOf(id);
    if (!place) return;
    const top = this.top() + place.top;
    if (top < 72 || top + place.height > innerHeight) scrollBy({ top: top - innerHeight / 3, behavior: "instant" });
    this.draw();
    this.tiles.get(id)?.querySelector("a")?.focus({ preventScroll: true });
  }

  speak(count) {
    this.toSay = (this.toSay ?? 0) + count;
    this.speaking ??= setTimeout(() => {
      this.voice.textContent = `${plural(this.toSay, "new photo")}, ${plural(this.store.photos.length, "photo")} in all.`;
      this.speaking = null;
      this.toSay = 0;
      this.spoken = Date.now();
    }, Math.max(300, SPEAK_EVERY_MS - (Date.now() - this.spoken)));
  }
}
