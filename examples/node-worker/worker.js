// A worker for a Lingxi queue: BullMQ rings, and what is done to items goes over HTTP, behind their fence.
const { Worker, DelayedError, UnrecoverableError } = require("bullmq");
const { REDIS_URL, LINGXI_URL, LINGXI_TOKEN, LINGXI_TYPE: type, LEASE_SECONDS = 30 } = process.env;
const leaseSeconds = Number(LEASE_SECONDS), worker = `node-${process.pid}`;
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function call(method, path, body) { // null: superseded, somebody else has the item
  const headers = { authorization: `Bearer ${LINGXI_TOKEN}`, "content-type": "application/json" };
  const answer = await fetch(`${LINGXI_URL}/api/v1/worker/${path}`, { method, headers, body: JSON.stringify(body) });
  if (answer.status === 409) return null;
  if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`);
  return answer.json();
}

async function work({ input, attempt, idempotencyKey }) { // yours: answer a result, or throw an error with a code
  await sleep(input.durationMs ?? 0);
  if (input.fail) throw Object.assign(new Error("told to fail"), { code: "drill_failed", retryable: input.fail === "transient" });
  return { by: worker, attempt };
}

async function onJob(job, token) {
  const come_back = async () => { await job.moveToDelayed(Date.now() + 1000, token); throw new DelayedError(); };
  const claims = await call("POST", "claims", { type, worker, items: [job.data.itemId], leaseSeconds }).catch(come_back);
  const [claim] = claims.claimed, reason = claims.notClaimed[0]?.reason;
  if (reason === "later") await come_back();
  if (reason === "unknown") throw new UnrecoverableError("foreign_job");
  if (!claim) return; // it needs no work: the job is acknowledged
  const attempt = `attempts/${claim.attemptId}`;
  const renewal = setInterval(() => call("PUT", `${attempt}/lease`, { leaseSeconds }).catch(console.error), leaseSeconds * 333);
  const ending = await work(claim).then((result) => ({ outcome: "succeeded", result }), (error) => (
    { outcome: "failed", error: { code: error.code ?? "internal_error", message: `${error.message}`, retryable: error.retryable ?? true } }));
  clearInterval(renewal);
  const told = await call("POST", `${attempt}/finish`, ending); // an error here: the lease runs out, and another attempt is made
  console.log(told ? `${told.verdict} ${told.state}` : "superseded", claim.itemId);
}

new Worker(type.replace(":", "-"), onJob, { connection: { url: REDIS_URL }, concurrency: 4 }).on("error", console.error);
setInterval(() => call("POST", "claims", { type, worker, items: [] }).catch(console.error), 10_000); // the queue's heartbeat
