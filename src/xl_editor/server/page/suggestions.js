// The panel of suggestions: what could go into a gap, stand in place of words, or fill the blanks. One click applies
// a suggestion, a second one takes it back, and a click on another tries that one instead.

import { byId, make } from "./dom.js";
import { odds, percent, signed } from "./numbers.js";
import { codePoints, withBlankAt, withEscapes } from "./text.js";

const N = 8; // suggestions
const LOOKS = 6; // places in the list of those worth a look

export class Suggestions {
  #document;
  #onLook;
  #base = null; // the text that the suggestions are about
  #found = [];

  /** `onLook` is told when the writer wants to go to a place. */
  constructor(document, onLook) {
    this.#document = document;
    this.#onLook = onLook;
    byId("suggestions").addEventListener("keydown", moveWithArrows);
  }

  /** Nothing is asked: the places that are hottest, if any. */
  showPlaces(text, places) {
    this.#forget();
    const empty = text.trim() === "";
    this.#head(empty ? "Suggestions" : places.length ? "Worth a look" : "Nothing stands out", "");
    const hint = empty
      ? "Write or paste something, or begin with an example."
      : "Put the caret between two words to see what could go there. " +
        "Select words, or put it inside one, to see what could stand instead.";
    byId("hint").textContent = hint;
    const shown = places.slice(0, LOOKS).map((place) => {
      const around = make("span", { className: "words" }, ...drawnPlace(text, place));
      const number = make("span", { className: "number" }, place.number);
      const look = make("button", { type: "button", className: "look", title: place.tip }, around, number);
      look.addEventListener("click", () => this.#onLook(place));
      return make("li", {}, look);
    });
    byId("suggestions").replaceChildren(...shown);
  }

  /** A text that cannot be asked about yet. */
  showNothing(heading, hint) {
    this.#forget();
    this.#head(heading, "");
    byId("hint").textContent = hint;
    byId("suggestions").replaceChildren();
  }

  showWaiting(text, place, tip) {
    this.showNothing(headingOf(text, place), "");
    this.#head(headingOf(text, place), tip);
    byId("suggestions").setAttribute("aria-busy", "true");
  }

  show(text, place, tip, found) {
    this.#base = text;
    this.#found = found;
    this.#head(headingOf(text, place), tip);
    byId("hint").textContent = found.length ? "" : "The model has nothing to suggest here.";
    byId("announced").textContent = found.length ? `${found.length} suggestions, the best is: ${found[0].words}` : "";
    this.#render();
  }

  /** Whether the text is still one that the suggestions know: the one they are about, or one of them. */
  follows(text) {
    const known = this.#base !== null && (text === this.#base || this.#found.some((one) => one.text === text));
    if (known) this.#render();
    return known;
  }

  focusFirst() {
    byId("suggestions").querySelector("button:not(:disabled)")?.focus();
  }

  #forget() {
    this.#base = null;
    this.#found = [];
    byId("suggestions").removeAttribute("aria-busy");
  }

  #head(heading, tip) {
    byId("asked").textContent = heading;
    byId("asked-tip").textContent = tip;
    byId("announced").textContent = "";
  }

  #render() {
    const list = byId("suggestions");
    list.removeAttribute("aria-busy");
    const focused = [...list.querySelectorAll("button")].indexOf(document.activeElement);
    const strongest = Math.max(...this.#found.map((one) => one.strength));
    const items = this.#found.map((one) => {
      const applied = one.text === this.#document.text && one.text !== this.#base;
      const words = make("span", { className: `words ${one.kind}` }, one.words);
      const number = make("span", { className: "number", title: one.title }, applied ? "undo" : one.number);
      const pressed = { className: "suggestion", "aria-pressed": String(applied) };
      const button = make("button", { type: "button", ...pressed }, words, number);
      button.disabled = one.text === this.#base;
      button.style.setProperty("--strength", Math.exp(one.strength - strongest));
      button.addEventListener("click", () => this.#press(one, applied));
      return make("li", {}, button);
    });
    list.replaceChildren(...items);
    if (focused >= 0) list.querySelectorAll("button")[focused]?.focus();
  }

  #press(one, applied) {
    const { states, index } = this.#document;
    if (this.#document.text !== this.#base && states[index - 1]?.text === this.#base) this.#document.undo();
    if (!applied) this.#document.apply(one.text, one.kind, one.details);
    else if (this.#document.text !== this.#base) this.#document.apply(this.#base, one.kind); // other steps lie between
  }
}

/** What could go into a gap. */
export async function insertionsAt(ask, text, place) {
  const { fillings } = await ask("infill", { text: withBlankAt(text, place.start), n: N });
  return fillings.map((filling) => fromFilling(filling, "insert"));
}

/** What could fill the blanks of a text, all of them at once. */
export async function fillingsOf(ask, text) {
  const { fillings } = await ask("infill", { text, n: N });
  return fillings.map((filling) => fromFilling(filling, "fill"));
}

/** What could stand in place of a span; nothing, too, with its odds. */
export async function replacementsOf(ask, text, place) {
  const span = [codePoints(text, place.start), codePoints(text, place.end)];
  const [{ edits }, { deletions }] = await Promise.all([
    ask("replace", { text, span, n: N }),
    ask("delete", { text, span }),
  ]);
  const [{ text: rest, log_odds }] = deletions;
  const deletion = { words: "delete", kind: "delete", text: rest, ...numbers({ log_odds }) };
  const others = edits.filter((edit) => edit.inserted).map((edit) => ({
    words: edit.inserted,
    kind: "replace",
    text: edit.text,
    ...numbers({ log_odds: edit.log_odds, logprob: edit.logprob }),
  }));
  return [...others, deletion].sort((a, b) => b.strength - a.strength);

  function numbers(details) {
    const title = `log odds ${signed(details.log_odds)}`;
    return { strength: details.log_odds, number: odds(details.log_odds), title, details };
  }
}

function fromFilling({ text, inserted, logprob }, kind) {
  const words = inserted.map((part) => part || "∅").join(" … ");
  const numbers = { strength: logprob, number: percent(Math.exp(logprob)), title: `log q ${signed(logprob)}` };
  return { words, kind, text: withEscapes(text), ...numbers, details: { logprob } };
}

function headingOf(text, place) {
  if (place.kind === "blanks") return "To fill the blanks";
  if (place.kind === "span") return `Instead of “${shortened(text.slice(place.start, place.end))}”`;
  const before = text.slice(0, place.start).trimEnd().split(/\s/).at(-1);
  const after = text.slice(place.start).trimStart().split(/\s/)[0];
  if (!before) return after ? `Before “${after}”` : "To begin with";
  return after ? `Between “${before}” and “${after}”` : `After “${before}”`;
}

function shortened(words) {
  return words.length > 40 ? `${words.slice(0, 38)}…` : words;
}

function drawnPlace(text, { kind, start, end }) {
  if (kind === "span") return [make("mark", {}, shortened(text.slice(start, end)))];
  const before = text.slice(0, start).trimEnd().split(/\s/).slice(-2).join(" ");
  const after = text.slice(end).trimStart().split(/\s/).slice(0, 2).join(" ");
  return [`${before} `, make("span", { className: "wedge", "aria-label": "gap" }, "‸"), ` ${after}`];
}

function moveWithArrows(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step) return;
  const buttons = [...event.currentTarget.querySelectorAll("button:not(:disabled)")];
  buttons[buttons.indexOf(document.activeElement) + step]?.focus();
  event.preventDefault();
}
