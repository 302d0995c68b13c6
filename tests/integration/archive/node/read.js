// Opens a ZIP with yauzl, reads every file, and prints its entries: one JSON line of [name, size, SHA-256, time in ms].
const { createHash } = require("node:crypto");
const { pipeline } = require("node:stream/promises");
const yauzl = require("yauzl");

const [path, what] = process.argv.slice(2);
yauzl.open(path, { lazyEntries: true, autoClose: true }, (error, zip) => {
  if (error) throw error;
  const entries = [];
  let count = 0;
  zip.on("error", (failed) => { throw failed; });
  zip.on("end", () => console.log(JSON.stringify(what === "count" ? count : entries)));
  zip.on("entry", (entry) => {
    count += 1;
    if (what === "count") return zip.readEntry();
    zip.openReadStream(entry, async (failed, stream) => {
      if (failed) throw failed;
      const hash = createHash("sha256");
      await pipeline(stream, hash);
      entries.push([entry.fileName, entry.uncompressedSize, hash.digest("hex"), entry.getLastModDate().getTime()]);
      zip.readEntry();
    });
  });
  zip.readEntry();
});
