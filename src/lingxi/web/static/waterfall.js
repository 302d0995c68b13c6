// The chart of a photo's way, from the camera to the first viewer: one bar a stage, on one axis of time.
import { element } from "./api.js";

const STAGES = [
  ["received", "stored", "Upload"],
  ["stored", "enqueued", "To the queue"],
  ["enqueued", "started", "Waiting for a worker"],
  ["started", "decoded", "Decode"],
  ["decoded", "encoded", "Make pictures"],
  ["encoded", "variantsStored", "Store pictures"],
  ["variantsStored", "committed", "Publish"],
  ["committed", "firstFrame", "To the first viewer"],
];
const SVG = "http://www.w3.org/2000/svg";

// A table whose cells hold the bars, so that it can be read aloud, too. `times`: stage → RFC 3339; what is missing has no row.
export function waterfall(times) {
  const spans = STAGES.filter(([from, to]) => times[from] && times[to])
    .map(([from, to, words]) => ({ words, from: Date.parse(times[from]), to: Math.max(Date.parse(times[to]), Date.parse(times[from])) }));
  if (!spans.length) return element("p", { class: "quiet" }, "No times yet.");
  const start = Math.min(...spans.map(({ from }) => from));
  const whole = Math.max(1, Math.max(...spans.map(({ to }) => to)) - start);
  const rows = spans.map(({ words, from, to }, index) => element("tr", {},
    element("th", { scope: "row" }, words),
    element("td", { class: "lane" }, bar(index, (100 * (from - start)) / whole, (100 * (to - from)) / whole)),
    element("td", { class: "number" }, duration(to - from))));
  rows.push(element("tr", { class: "whole" },
    element("th", { scope: "row" }, "In all"), element("td", {}), element("td", { class: "number" }, duration(whole))));
  return element("table", { class: "waterfall" },
    element("caption", {}, "From the shutter to the first viewer"), element("tbody", {}, ...rows));
}

function bar(index, offset, width) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("aria-hidden", "true");
  const rect = document.createElementNS(SVG, "rect");
  const attributes = { x: `${Math.min(offset, 99)}%`, width: `${Math.max(width, 1)}%`, height: "100%", rx: 2, class: `stage-${index}` };
  for (const [name, value] of Object.entries(attributes)) rect.setAttribute(name, value);
  svg.append(rect);
  return svg;
}

const duration = (milliseconds) => (milliseconds < 1_000 ? `${Math.round(milliseconds)} ms` : `${(milliseconds / 1_000).toFixed(2)} s`);
