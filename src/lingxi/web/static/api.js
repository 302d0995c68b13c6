// Talks to the API under the page's cookie. What goes wrong is a Refusal whose message is one plain sentence.
export class Refusal extends Error {
  constructor(sentence, status, code) {
    super(sentence);
    this.status = status;
    this.code = code;
  }
}

export async function call(method, path, body) {
  let answer;
  try {
    const json = body === undefined ? {} : { headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
    answer = await fetch(path, { method, ...json });
  } catch {
    throw new Refusal("There is no connection to the server. Nothing was changed; try again.", 0);
  }
  const text = await answer.text();
  if (!answer.ok) throw refusal(answer.status, text);
  return text ? JSON.parse(text) : null;
}

// From an answer's status and body; a proxy between may have sent something that is no problem document.
export function refusal(status, text) {
  if (status === 401) return new Refusal("You are signed out. Sign in again in another tab, then go on here.", status);
  try {
    const problem = JSON.parse(text);
    if (problem.detail) return new Refusal(problem.detail, status, problem.code);
  } catch {
    // falls through to a sentence of our own
  }
  if (status === 413) return new Refusal("A server on the way does not take a file this large.", status);
  return new Refusal(`The server could not do this now (it answered ${status}). Try again in a moment.`, status);
}

// An element with attributes, properties (`.name`), listeners (`onclick`) and children; text is always text, never markup.
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith(".")) made[name.slice(1)] = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export const plural = (count, one, many = `${one}s`) => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;

export function bytes(count) {
  if (count < 1e6) return `${Math.max(1, Math.round(count / 1e3))} kB`;
  return count < 1e9 ? `${(count / 1e6).toFixed(1)} MB` : `${(count / 1e9).toFixed(2)} GB`;
}
