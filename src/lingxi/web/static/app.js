// Keeps a page live. One stream a task and browser: the tab that holds the lock listens to the server, the others to it.
const STATES = ["succeeded", "failed", "cancelled", "running", "retrying", "queued"];
const WORDS = { partially_failed: "partially failed" };
const REFRESH_MS = 4000;
const $ = (id) => document.getElementById(id);
const words = (state) => WORDS[state] ?? state;

const task = $("task");
if (task) followTask(task);
else if ($("tasks")) refreshList();

function followTask(page) {
  const address = `/api/v1/media-tasks/${page.dataset.id}`;
  const steer = page.dataset.steer === "true";
  const rows = new Map([...document.querySelectorAll("#items tr[data-index]")].map((row) => [row.dataset.index, row]));
  const latest = new Map(); // what has been told so far, for a tab that joins later
  const channel = new BroadcastChannel(`lingxi-task-${page.dataset.id}`);
  let lastId = page.dataset.cursor;
  let leading = false;

  channel.onmessage = ({ data }) => {
    if (data.hello && leading) for (const frame of latest.values()) channel.postMessage(frame);
    else if (data.again) listen();
    else if (data.event) show(data);
  };
  listen();
  channel.postMessage({ hello: true });
  $("cancel").onclick = () => change("cancel");
  $("retry").onclick = () => change("retry-failed");

  function listen() {
    if (listen.waiting) return;
    listen.waiting = true;
    const lead = () => new Promise((done) => {
      leading = true;
      stream(() => { leading = listen.waiting = false; done(); });
    });
    // Browsers offer locks only over https and on this machine: elsewhere each tab has a stream of its own.
    if (navigator.locks) navigator.locks.request(`lingxi-task-${page.dataset.id}`, lead);
    else lead();
  }

  function stream(done) {
    const source = new EventSource(`${address}/events?lastEventId=${encodeURIComponent(lastId)}`);
    const stop = () => { source.close(); done(); };
    for (const event of ["snapshot", "item", "progress", "end", "reset"]) {
      source.addEventListener(event, (message) => {
        const frame = { event, id: message.lastEventId, data: JSON.parse(message.data || "{}") };
        latest.set(event === "item" ? `item-${frame.data.index}` : event, frame);
        show(frame);
        channel.postMessage(frame);
        if (event === "end") stop();
      });
    }
    source.onopen = () => { $("live").textContent = "live"; };
    source.onerror = () => {
      const over = source.readyState === EventSource.CLOSED;
      $("live").textContent = over ? (page.dataset.final === "true" ? "" : "not live: reload the page") : "connecting again …";
      if (over) stop();
    };
  }

  function show({ event, id, data }) {
    if (id) lastId = id;
    if (event === "item") showItem(data);
    if (event === "snapshot" || event === "progress" || event === "end") showTask(data);
    if (event === "end") $("live").textContent = "";
    page.dataset.final = String(event === "end");
  }

  function showTask({ status, round, counts }) {
    const final = counts.queued + counts.running + counts.retrying === 0;
    $("status").className = `chip ${status}`;
    $("status").textContent = words(status);
    $("round").textContent = round;
    $("cancel").hidden = !steer || final || status === "cancelling";
    $("retry").hidden = !steer || !final || counts.failed === 0;
    let offset = 0;
    for (const state of STATES) {
      const share = (100 * counts[state]) / counts.total;
      const part = document.querySelector(`#bar [data-state=${state}]`);
      part.setAttribute("x", `${offset}%`);
      part.setAttribute("width", `${share}%`);
      offset += share;
      document.querySelector(`[data-count=${state}]`).textContent = counts[state];
    }
  }

  function showItem({ index, state, attempt, error }) {
    const row = rows.get(String(index));
    if (!row) return;
    const chip = row.querySelector(".chip");
    chip.className = `chip ${state}`;
    chip.textContent = words(state);
    row.cells[2].textContent = attempt;
    row.cells[3].textContent = error ? `${error.code}: ${error.message}` : "";
  }

  async function change(verb) {
    const buttons = [$("cancel"), $("retry")];
    const problem = $("problem");
    problem.hidden = true;
    for (const button of buttons) button.disabled = true;
    try {
      const answer = await fetch(`${address}/${verb}`, { method: "POST" });
      const body = await answer.json();
      if (!answer.ok) throw new Error(`${body.detail} (${body.code})`);
      showTask(body);
      if (verb === "retry-failed") {
        page.dataset.final = "false";
        channel.postMessage({ again: true });
        listen();
      }
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
    } finally {
      for (const button of buttons) button.disabled = false;
    }
  }
}

function refreshList() {
  setInterval(async () => {
    if (document.hidden) return;
    try {
      const answer = await fetch(location.href);
      if (!answer.ok) return;
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("#tasks tbody");
      const body = document.querySelector("#tasks tbody");
      if (!fresh) location.reload(); // signed out meanwhile
      else if (fresh.innerHTML !== body.innerHTML) body.replaceWith(document.adoptNode(fresh));
    } catch {
      // the server is away for a moment: the next round tries again
    }
  }, REFRESH_MS);
}
