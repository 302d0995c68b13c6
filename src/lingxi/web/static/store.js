// The photos of an album in the contract's order: by time of capture (else of upload), then by upload number.
const key = (photo) => photo.capturedAt ?? photo.createdAt; // RFC 3339 in UTC, all of one length: text compares as time

function before(one, other) {
  const [a, b] = [key(one), key(other)];
  return a === b ? one.uploadNumber < other.uploadNumber : a < b;
}

export class Store {
  constructor(wanted) {
    this.wanted = wanted; // which photos this page shows
    this.photos = [];
    this.byId = new Map();
    this.told = null; // while pages are being read: ids of which the stream has told more than a page can know; null once all is read
  }

  // Takes a photo as it is now. Was it new to this page?
  put(photo) {
    this.told?.add(photo.id);
    const known = this.byId.get(photo.id);
    if (known) this.photos.splice(this.place(known), 1);
    if (!this.wanted(photo)) {
      this.byId.delete(photo.id);
      return false;
    }
    this.byId.set(photo.id, photo);
    this.photos.splice(this.place(photo), 0, photo);
    return !known;
  }

  remove(id) {
    this.told?.add(id);
    const known = this.byId.get(id);
    if (!known) return;
    this.photos.splice(this.place(known), 1);
    this.byId.delete(id);
  }

  // Where the photo is, or belongs.
  place(photo) {
    let low = 0;
    let high = this.photos.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (before(this.photos[middle], photo)) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // A page that was read by GET. The stream went on meanwhile: what it told of is left alone.
  addPage(photos) {
    const fresh = photos.filter((photo) => !this.told?.has(photo.id) && this.wanted(photo));
    for (const photo of fresh) {
      const known = this.byId.get(photo.id);
      if (known) this.photos.splice(this.place(known), 1);
      this.byId.set(photo.id, photo);
      this.photos.splice(this.place(photo), 0, photo);
    }
  }

  keepOnly(ids) {
    this.photos = this.photos.filter(({ id }) => ids.has(id) || this.told?.has(id));
    this.byId = new Map(this.photos.map((photo) => [photo.id, photo]));
  }
}

export const variant = (photo, kind) => photo.variants.find((one) => one.kind === kind);

const format = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short" });

export const moment = (time) => format.format(new Date(time));

// What a photo is called where its file name is nobody's business.
export const nameOf = (photo) =>
  photo.fileName ?? (photo.capturedAt ? `Photo taken ${moment(photo.capturedAt)}` : `Photo ${photo.uploadNumber}`);
