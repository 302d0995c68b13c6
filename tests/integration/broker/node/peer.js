// Node's side of the interop tests: one JSON request a line on stdin, one JSON answer a line on stdout.
// peer.js REDIS_URL QUEUE
"use strict";
const readline = require("node:readline");
const { Queue, Worker } = require("bullmq");
const { createBullBoard } = require("@bull-board/api");
const { BullMQAdapter } = require("@bull-board/api/bullMQAdapter");

const [url, name] = process.argv.slice(2);
const { hostname: host, port, password, pathname } = new URL(url);
const connection = { host, port: Number(port), password: decodeURIComponent(password), db: Number(pathname.slice(1) || 0) };
const queue = new Queue(name, { connection });
let worker = null;
let outcomes = [];

const view = async (job) => job && {
  id: job.id, name: job.name, data: job.data, state: await job.getState(), priority: job.priority,
  attemptsMade: job.attemptsMade, failedReason: job.failedReason ?? null, timestamp: job.timestamp, opts: job.opts,
};

const verbs = {
  add: async ({ jobs }) => (await queue.addBulk(jobs)).map((job) => job.id),
  job: async ({ id }) => view(await queue.getJob(id)),
  counts: () => queue.getJobCounts("wait", "prioritized", "active", "delayed", "completed", "failed"),
  pause: () => queue.pause(),
  resume: () => queue.resume(),
  retry: async ({ id }) => (await queue.getJob(id)).retry(),
  workers: async () => (await queue.getWorkers()).map((client) => client.rawname),
  // one job at a time, in order; a job whose name is in `fail` throws
  work: ({ fail = [], options = {} }) => {
    outcomes = [];
    worker = new Worker(name, async (job) => {
      if (fail.includes(job.id)) throw new Error(`größer "${job.id}" 😀`);
      return { done: job.id };
    }, { connection, concurrency: 1, drainDelay: 1, ...options });
    worker.on("completed", (job, result) => outcomes.push({ id: job.id, data: job.data, name: job.name, opts: job.opts, made: job.attemptsMade, result }));
    worker.on("failed", (job, error) => outcomes.push({ id: job?.id, failed: error.message, made: job?.attemptsMade }));
    worker.on("error", () => {});
  },
  outcomes: () => outcomes,
  rest: async () => { await worker.close(); worker = null; },
  // what the page of the board is made from, and the actions behind its buttons
  board: async ({ status = "latest" }) => {
    const seen = {};
    const adapter = new Proxy({}, { get: (_, verb) => (...args) => { seen[verb] = args; return adapter; } });
    createBullBoard({ queues: [new BullMQAdapter(queue)], serverAdapter: adapter, options: { uiBasePath: ".", validateResponses: true } });
    const route = seen.setApiRoutes[0].find((r) => [].concat(r.route).includes("/api/queues"));
    const query = { activeQueue: name, status, page: "1", jobsPerPage: "10" };
    const answer = await route.handler({ queues: seen.setQueues[0], query, params: {}, body: {}, headers: {} });
    if (answer.status >= 400) throw new Error(JSON.stringify(answer.body));
    return answer.body;
  },
  quit: async () => { if (worker) await worker.close(true); await queue.close(); setImmediate(() => process.exit(0)); },
};

readline.createInterface({ input: process.stdin }).on("line", async (line) => {
  const request = JSON.parse(line);
  try {
    const value = await verbs[request.verb](request);
    process.stdout.write(JSON.stringify({ value: value ?? null }) + "\n");
  } catch (error) {
    process.stdout.write(JSON.stringify({ error: `${error.stack}` }) + "\n");
  }
});
