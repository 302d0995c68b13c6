// One photo large, in a modal dialog: keys, swipes, and an address of its own, so that Back closes it.
import { moment, nameOf, variant } from "./store.js";

const SWIPE_PIXELS = 48;

export class Large {
  // `dialog` holds: img, [data-act=close|previous|next], .counter, .said. `details(photo)`: members' side panel. `original(photo)`: the
  // address of its file, or null. `closed(id)`.
  constructor(store, dialog, { details, original, closed }) {
    Object.assign(this, { store, dialog, details, original, closed });
    this.image = dialog.querySelector(".stage img");
    this.stage = dialog.querySelector(".stage");
    this.part = (act) => dialog.querySelector(`[data-act=${act}]`);
    this.part("close").onclick = () => this.close();
    this.part("previous").onclick = () => this.step(-1);
    this.part("next").onclick = () => this.step(1);
    dialog.addEventListener("close", () => { if (this.shown) this.close(); }); // by the browser itself: a Back gesture
    addEventListener("keydown", (event) => this.key(event));
    this.stage.addEventListener("click", (event) => { if (event.target === this.stage) this.close(); });
    addEventListener("hashchange", () => this.follow());
    this.swipes();
  }

  // Opens or closes, as the address says. `arrived`: the page was opened at this address, so Back leads elsewhere.
  follow(arrived = false) {
    const photo = this.store.byId.get(location.hash.slice(1));
    if (!photo) {
      this.hide();
      if (this.left) this.closed(this.left); // going back has scrolled to where one was before
      this.left = null;
      return;
    }
    if (!this.dialog.open) {
      this.arrived = arrived;
      this.dialog.classList.toggle("plain", !this.details);
      this.dialog.showModal();
    }
    this.say("");
    this.show(photo);
  }

  close() {
    this.left = this.shown.id;
    this.hide();
    if (this.arrived) history.replaceState(null, "", location.pathname);
    else history.back();
  }

  hide() {
    if (!this.shown) return;
    const { id } = this.shown;
    this.shown = this.browseUrl = null;
    this.dialog.close();
    this.image.removeAttribute("src");
    this.closed(id);
  }

  show(photo) {
    const same = this.shown?.id === photo.id;
    const index = this.store.place(photo);
    this.part("previous").disabled = index === 0;
    this.part("next").disabled = index >= this.store.photos.length - 1;
    this.dialog.querySelector(".counter").textContent = `${(index + 1).toLocaleString("en")} of ${this.store.photos.length.toLocaleString("en")}`;
    if (this.shown === photo) return;
    this.shown = photo;
    this.picture(photo, same);
    this.dialog.querySelector(".caption").textContent = photo.fileName ?? (photo.capturedAt ? moment(photo.capturedAt) : "");
    const file = this.original?.(photo);
    this.part("original").hidden = !file;
    if (file) this.part("original").href = file;
    this.details?.(photo);
    this.preload(index);
  }

  picture(photo, same) {
    const browse = variant(photo, "browse");
    const thumb = variant(photo, "thumb");
    this.image.hidden = !browse;
    this.stage.classList.toggle("bare", !browse);
    if (!browse || (same && this.browseUrl === browse.url)) return;
    this.browseUrl = browse.url;
    this.image.width = browse.width;
    this.image.height = browse.height;
    this.image.alt = nameOf(photo);
    this.image.src = thumb.url;
    const full = new Image();
    full.src = browse.url;
    full.decode().then(() => { if (this.browseUrl === browse.url) this.image.src = browse.url; }).catch(() => {});
  }

  preload(index) {
    for (const at of [index + 1, index - 1]) {
      const browse = this.store.photos[at] && variant(this.store.photos[at], "browse");
      if (browse) new Image().src = browse.url;
    }
  }

  step(by) {
    this.goTo(this.store.place(this.shown) + by);
  }

  goTo(index) {
    const photo = this.store.photos[index];
    if (!photo) return;
    history.replaceState(history.state, "", `#${photo.id}`);
    this.say("");
    this.show(photo);
  }

  key(event) {
    const elsewhere = !this.shown || document.querySelector("dialog[open]:not(#large)"); // a question stands above it
    if (elsewhere || event.altKey || event.ctrlKey || event.metaKey) return;
    const to = { ArrowLeft: () => this.step(-1), ArrowRight: () => this.step(1),
      Escape: () => this.close(), Home: () => this.goTo(0), End: () => this.goTo(this.store.photos.length - 1) }[event.key];
    if (!to) return;
    event.preventDefault();
    to();
  }

  swipes() {
    let from = null;
    const end = (moved) => {
      this.image.style.transform = "";
      from = null;
      if (Math.abs(moved) > SWIPE_PIXELS) this.step(moved > 0 ? -1 : 1);
    };
    this.stage.addEventListener("pointerdown", (event) => {
      if (event.pointerType === "mouse" || !event.isPrimary || visualViewport?.scale > 1.05) return;
      from = { x: event.clientX, y: event.clientY };
    });
    this.stage.addEventListener("pointermove", (event) => {
      if (from && event.isPrimary) this.image.style.transform = `translateX(${event.clientX - from.x}px)`;
    });
    this.stage.addEventListener("pointerup", (event) => { if (from) end(event.clientX - from.x); });
    this.stage.addEventListener("pointercancel", () => { if (from) end(0); });
  }

  // The store has changed: what is shown may be gone, or be another version.
  changed() {
    if (!this.shown) return;
    const now = this.store.byId.get(this.shown.id);
    if (now) {
      this.show(now);
      return;
    }
    const next = this.store.photos[Math.min(this.store.place(this.shown), this.store.photos.length - 1)];
    if (!next) {
      this.close();
      return;
    }
    this.image.removeAttribute("src");
    this.goTo(this.store.place(next));
    this.say("The photo that you were looking at was taken back.");
  }

  say(sentence) {
    const said = this.dialog.querySelector(".said");
    said.textContent = sentence;
    said.hidden = !sentence;
  }
}
