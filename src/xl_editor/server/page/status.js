// One line that says, in words, what keeps the writer waiting or what went wrong.

import { byId } from "./dom.js";

const WORDS = {
  slow: () => "Still computing. Long texts take several seconds.",
  busy: ({ seconds }) => `The server is busy. Asking again in ${seconds} s.`,
  dead: () => "The server does not answer. Your text is safe on this page; it goes on as soon as the server is back.",
};
const RANKS = ["note", "slow", "busy", "error", "dead"]; // only the gravest is shown

const messages = new Map();

/** Who asks for something says here how it goes; null takes the message back. */
export function say(who, message) {
  messages.delete(who);
  if (message) messages.set(who, message);
  const gravest = [...messages.values()].sort((a, b) => RANKS.indexOf(b.kind) - RANKS.indexOf(a.kind))[0];
  const line = byId("status");
  const words = gravest ? (WORDS[gravest.kind]?.(gravest) ?? gravest.text) : "";
  if (line.textContent !== words) line.textContent = words; // said once, not over and over, to who listens
  line.dataset.kind = gravest?.kind ?? "";
}

/** For one question: what it says replaces only what it said before. */
export function newTeller() {
  const who = Symbol("question");
  return (message) => say(who, message);
}

/** Something that is worth a moment's notice. */
export function note(text) {
  say("note", { kind: "note", text });
  clearTimeout(note.timer);
  note.timer = setTimeout(() => say("note", null), 4000);
}

/** Runs what may be refused: a refusal is shown, what was called off is nobody's business. */
export async function attempt(who, task) {
  try {
    say(who, null);
    return await task();
  } catch (error) {
    if (error.name !== "AbortError") say(who, { kind: "error", text: error.message });
    return undefined;
  }
}
