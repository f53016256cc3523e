// The HTTP API, as the page needs it. No DOM in here.

import { recall, remember } from "./storage.js";

const SLOW = 3000; // ms without an answer, after which the writer is told
const KNOCK = 2000; // ms between two attempts to reach a server that is gone
const KEY = "xl-editor-key";

/** Whatever the server refuses: `kind` is the API's error_type, or "dead" where nobody answers. */
export class Refusal extends Error {
  constructor(message, kind, retryAfter = 0) {
    super(message);
    this.kind = kind;
    this.retryAfter = retryAfter;
  }
}

// A key is kept for as long as the tab is open.
export function useKey(key) {
  remember("sessionStorage", KEY, key);
}

export function getModels(tell) {
  return patiently(async () => (await send("/v1/models", {})).json(), undefined, tell);
}

/** One question. `tell` hears of what keeps the writer waiting ("slow", "busy", "dead"), and null when it is over. */
export function ask(operation, body, signal, tell) {
  return patiently(async () => (await send(`/v1/${operation}`, posted(body, signal))).json(), signal, tell);
}

/** A transfer's edits as they are made, and then the trace: {name, data}. */
export async function* streamTransfer(body, signal, tell) {
  const answer = await patiently(() => send("/v1/transfer", posted({ ...body, stream: true }, signal)), signal, tell);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let received = "";
  while (true) {
    const { done, value } = await patiently(() => reader.read().catch(() => cutOff(signal)), signal, tell);
    if (done) return;
    received += value;
    const events = received.split("\n\n");
    received = events.pop();
    for (const event of events) {
      const [name, data] = event.split("\n");
      const message = { name: name.slice("event: ".length), data: JSON.parse(data.slice("data: ".length)) };
      if (message.name === "error") throw new Refusal(message.data.error, message.data.error_type);
      yield message;
    }
  }
}

function cutOff(signal) {
  signal.throwIfAborted();
  throw new Refusal("The server went away in the middle of its answer. Try again when it is back.", "cut off");
}

/** Asks again when the server is busy, as late as it wishes, or when it is back. */
async function patiently(attempt, signal, tell) {
  try {
    while (true) {
      const slow = setTimeout(() => tell({ kind: "slow" }), SLOW);
      try {
        return await attempt();
      } catch (refusal) {
        if (refusal.kind === "busy") {
          tell({ kind: "busy", seconds: refusal.retryAfter });
          await pause(1000 * refusal.retryAfter, signal);
        } else if (refusal.kind === "dead" || refusal.kind === "unavailable") {
          tell({ kind: "dead" });
          do await pause(KNOCK, signal);
          while (!(await isAlive()));
        } else {
          throw refusal;
        }
      } finally {
        clearTimeout(slow);
      }
    }
  } finally {
    tell(null);
  }
}

async function send(path, options) {
  const key = recall("sessionStorage", KEY);
  const headers = { ...options.headers, ...(key ? { Authorization: `Bearer ${key}` } : {}) };
  let answer;
  try {
    answer = await fetch(path, { ...options, headers });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new Refusal("The server does not answer.", "dead");
  }
  if (answer.ok) return answer;
  const said = await answer.json().catch(() => ({}));
  const retryAfter = Math.max(1, Number(answer.headers.get("Retry-After")) || 1);
  throw new Refusal(said.error ?? `The server answered ${answer.status}.`, said.error_type ?? "error", retryAfter);
}

function posted(body, signal) {
  return { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal };
}

async function isAlive() {
  try {
    return (await fetch("/healthz", { cache: "no-store" })).ok;
  } catch {
    return false;
  }
}

/** Waits, unless it is called off. */
export function pause(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });
}
