// sharp, the other side of the photo benchmark: `node peer.mjs two|chained LANES`, in the words of photo_contender.py.
//
// `two`: a pipeline for each variant, as its documentation shows. `chained`: the thumb from the pixels of the browse
// variant, the quickest way found. Asked with `boxes`, so that both sides make the same sizes.
import { createInterface } from 'node:readline';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import sharp from 'sharp';

const [mode, lanes] = [process.argv[2], Number(process.argv[3])];
sharp.cache(false);
sharp.concurrency(1); // a photo a core, as on the other side
const jpeg = { quality: 80 };
const inside = (box) => ({ width: box, height: box, fit: 'inside', withoutEnlargement: true });
const upright = (photo) => sharp(photo, { failOn: 'error', sequentialRead: true }).autoOrient();

const ways = {
  async two(photo, box, browse, thumb) {
    const [made] = await Promise.all([
      upright(photo).resize(inside(box)).flatten({ background: '#fff' }).jpeg(jpeg).toFile(browse),
      upright(photo).resize(inside(400)).flatten({ background: '#fff' }).jpeg(jpeg).toFile(thumb),
    ]);
    return made;
  },
  async chained(photo, box, browse, thumb) {
    const { data, info } = await upright(photo)
      .resize(inside(box)).flatten({ background: '#fff' }).raw().toBuffer({ resolveWithObject: true });
    const raw = { raw: { width: info.width, height: info.height, channels: info.channels } };
    await Promise.all([
      sharp(data, raw).jpeg(jpeg).toFile(browse),
      sharp(data, raw).resize(inside(400)).jpeg(jpeg).toFile(thumb),
    ]);
    return info;
  },
};

async function run({ photos, out, boxes }) {
  const sizes = [];
  let next = 0;
  const lane = async () => {
    while (next < photos.length) {
      const number = next++;
      const folder = path.join(out, path.parse(photos[number]).name);
      await mkdir(folder);
      const made = await ways[mode](
        photos[number], boxes[number], path.join(folder, 'browse.jpg'), path.join(folder, 'thumb.jpg'));
      sizes[number] = [made.width, made.height];
    }
  };
  const started = performance.now();
  await Promise.all(Array.from({ length: lanes }, lane));
  return { seconds: (performance.now() - started) / 1000, browse: sizes };
}

console.log('ready');
for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await run(JSON.parse(line))));
}
