// An album that stays as it is on the server: the first page comes with the document, the others by GET, changes by the feed.
import { call } from "./api.js";
import { Feed } from "./feed.js";

const PAGE = 500;
const RETRY_MS = 3_000;

export class LiveAlbum {
  // `stores` are kept up to date; `changed(fresh)` is called after each batch of changes with the ids that the first store gained.
  constructor(root, stores, { changed, album, state, over }) {
    const { album: id, access, cursor, photos, next } = root.dataset;
    Object.assign(this, { id, stores, changed, album });
    this.address = `/api/v1/albums/${id}`;
    this.feed = new Feed({
      albumId: id, access, cursor: Number(cursor), state, over,
      show: (frames) => this.show(frames), resync: () => this.resync(),
    });
    for (const store of stores) {
      store.told = new Set();
      store.addPage(JSON.parse(photos));
    }
    this.run = 1;
    this.changed([]);
    this.feed.start();
    this.readRest(next === "more");
  }

  show(frames) {
    const fresh = [];
    for (const { event, data } of frames) {
      if (event === "snapshot") this.album(data.album ?? data);
      else if (event === "removed" && !data.photo) for (const store of this.stores) store.remove(data.id);
      else if (event === "photo" || event === "removed") { // members are told how a photo is that guests lost
        const photo = data.photo ?? data;
        const added = this.stores.map((store) => store.put(photo));
        if (added[0]) fresh.push(photo.id);
      }
    }
    this.changed(fresh.filter((id) => this.stores[0].byId.has(id)));
  }

  async readRest(more) {
    const run = this.run;
    let cursor = null; // from the head again: the document's photos carry no cursor of the API
    while (more && run === this.run) {
      try {
        cursor = await this.readPage(cursor);
        more = cursor !== null;
        this.changed([]);
      } catch (error) {
        if (error.status === 401 || error.status === 404) return; // the feed is told the same, and says so
        await new Promise((done) => setTimeout(done, RETRY_MS));
      }
    }
    if (run !== this.run) return;
    for (const store of this.stores) store.told = null;
    this.changed([]);
  }

  async readPage(cursor, seen) {
    const after = cursor ? `&cursor=${encodeURIComponent(cursor)}` : "";
    const { run } = this;
    const page = await call("GET", `${this.address}/photos?limit=${PAGE}${after}`);
    if (run !== this.run) return null; // everything is being read anew meanwhile
    for (const store of this.stores) store.addPage(page.photos);
    for (const { id } of page.photos) seen?.add(id);
    return page.nextCursor;
  }

  // Everything anew; what is not there any more goes. Answers the number from which the feed goes on.
  async resync() {
    this.run += 1;
    for (const store of this.stores) store.told = new Set();
    const album = await call("GET", this.address);
    const seen = new Set();
    let cursor = null;
    do cursor = await this.readPage(cursor, seen);
    while (cursor);
    for (const store of this.stores) {
      store.keepOnly(seen);
      store.told = null;
    }
    this.album(album);
    this.changed([]);
    return album.cursor;
  }
}
