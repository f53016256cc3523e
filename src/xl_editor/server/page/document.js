// The document: a text and its history. No DOM in here.
//
// A history of whole states: texts are short, and whoever steps through it finds not only the text as it was, but
// also which edits of a style run stood and which had been rejected.

import { follow } from "./review.js";
import { changeBetween, cleaned } from "./text.js";

const TYPING_PAUSE = 1500; // ms, after which further typing is a change of its own

export class Document extends EventTarget {
  #states = [{ text: "", kind: "opened", label: "Empty", review: [], details: {} }];
  #index = 0;
  #typedAt = -Infinity;

  get text() {
    return this.now.text;
  }

  get now() {
    return this.#states[this.#index];
  }

  get states() {
    return this.#states;
  }

  get index() {
    return this.#index;
  }

  /** From the last text that was opened, up to now: what an export tells of. */
  get sinceOpened() {
    const done = this.#states.slice(0, this.#index + 1);
    return done.slice(done.findLastIndex((state) => state.kind === "opened"));
  }

  open(text, label) {
    this.#push({ text: cleaned(text), kind: "opened", label, review: [], details: {} });
  }

  /** What the writer's hand did. Keys struck in one go are one change; what is written from nothing is a new text. */
  type(text) {
    text = cleaned(text);
    if (text === this.text) return;
    const now = performance.now();
    const goesOn = now - this.#typedAt < TYPING_PAUSE && this.now.typed && this.#index === this.#states.length - 1;
    this.#typedAt = now;
    const review = follow(this.now.review, changeBetween(this.text, text));
    if (goesOn) {
      this.amend({ text, review });
    } else {
      const opens = this.text.trim() === "";
      const [kind, label] = opens ? ["opened", "Wrote"] : ["typed", "Typed"];
      this.#push({ text, kind, label, review, details: {}, typed: true });
    }
  }

  /** A chosen change: `details` are what the server said of it, `review` replaces what would follow by itself. */
  apply(text, kind, details = {}, review = null, told = null) {
    text = cleaned(text);
    const change = told ?? changeBetween(this.text, text);
    this.#push({ text, kind, label: labelOf(change), details, review: review ?? follow(this.now.review, change) });
  }

  /** Something about the present state that is no change of the text. */
  amend(properties) {
    this.#states[this.#index] = { ...this.now, ...properties };
    this.#changed();
  }

  get canUndo() {
    return this.#index > 0;
  }

  get canRedo() {
    return this.#index < this.#states.length - 1;
  }

  undo() {
    this.goTo(this.#index - 1);
  }

  redo() {
    this.goTo(this.#index + 1);
  }

  goTo(index) {
    if (index === this.#index || !(index in this.#states)) return;
    this.#index = index;
    this.#typedAt = -Infinity;
    this.#changed();
  }

  #push(state) {
    this.#states = [...this.#states.slice(0, this.#index + 1), state];
    this.#index += 1;
    this.#changed();
  }

  #changed() {
    this.dispatchEvent(new Event("change"));
  }
}

export function labelOf({ removed, inserted }) {
  [removed, inserted] = [removed.trim(), inserted.trim()];
  if (removed && inserted) return `“${removed}” → “${inserted}”`;
  return removed ? `Deleted “${removed}”` : `Inserted “${inserted}”`;
}
