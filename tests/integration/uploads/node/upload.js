// One upload by tus-js-client: `node upload.js JSON`; prints what happened as one line of JSON.
// job: {endpoint, url?, token, path, chunkSize?, checksum?, stopAt?, terminate?}
const crypto = require("node:crypto");
const fs = require("node:fs");
const path = require("node:path");
const tus = require("tus-js-client");

const job = JSON.parse(process.argv[2]);
const file = fs.readFileSync(job.path);
const requests = [];
let last = {};
let stopped = false;

function tell(outcome) {
  process.stdout.write(JSON.stringify({ ...outcome, url: upload.url, requests, last }) + "\n");
  process.exit(0);
}

const upload = new tus.Upload(file, {
  endpoint: job.endpoint,
  uploadUrl: job.url ?? null,
  chunkSize: job.chunkSize ?? Infinity,
  retryDelays: [50, 100, 200, 400, 800, 1600, 3200, 3200, 3200],
  metadata: { filename: path.basename(job.path), filetype: "image/jpeg" },
  headers: { Authorization: `Bearer ${job.token}` },
  onBeforeRequest(request) {
    const offset = request.getHeader("Upload-Offset");
    requests.push([request.getMethod(), offset === undefined ? null : Number(offset)]);
    if (job.checksum && request.getMethod() === "PATCH") {
      const start = Number(offset);
      const chunk = file.subarray(start, Math.min(file.length, start + (job.chunkSize ?? file.length)));
      const digest = crypto.createHash(job.checksum).update(chunk).digest("base64");
      request.setHeader("Upload-Checksum", `${job.checksum} ${digest}`);
    }
  },
  onAfterResponse(request, response) {
    const header = (name) => response.getHeader(name) ?? null;
    last = { status: response.getStatus(), photoId: header("Lingxi-Photo-Id"), created: header("Lingxi-Photo-Created") };
  },
  onProgress(sent) {
    if (job.stopAt !== undefined && sent >= job.stopAt && !stopped && upload.url) {
      stopped = true;
      upload.abort(Boolean(job.terminate)).then(() => tell({ outcome: "stopped" }), (error) => tell({ outcome: "error", error: String(error) }));
    }
  },
  onError: (error) => tell({ outcome: "error", error: String(error) }),
  onSuccess: () => tell({ outcome: "success" }),
});
upload.start();
