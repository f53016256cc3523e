// The sheet: a textarea to write in and, behind its letters, the same text drawn once more with the heat.
//
// A real textarea does what every writer, phone and screen reader expects. The drawing behind it has the same letters
// in the same places, so it can colour them, and it is what the pointer hovers over.

import { byId, make } from "./dom.js";

export class Sheet extends EventTarget {
  #area = byId("text");
  #drawing = byId("drawing");
  #tip = byId("tip");
  #selection = "0-0";

  constructor() {
    super();
    const area = this.#area;
    area.addEventListener("input", () => {
      this.#noteSelection();
      this.dispatchEvent(new Event("type"));
    });
    // The browser's own undo knows nothing of what the page changes: ours takes its place.
    area.addEventListener("beforeinput", (event) => {
      if (event.inputType === "historyUndo" || event.inputType === "historyRedo") {
        event.preventDefault();
        this.dispatchEvent(new Event(event.inputType === "historyUndo" ? "undo" : "redo"));
      }
    });
    area.addEventListener("keydown", (event) => {
      const key = event.key.toLowerCase();
      if (!(event.ctrlKey || event.metaKey) || (key !== "z" && key !== "y")) return;
      event.preventDefault();
      this.dispatchEvent(new Event(key === "y" || event.shiftKey ? "redo" : "undo"));
    });
    document.addEventListener("selectionchange", () => {
      if (document.activeElement === area && this.#noteSelection()) this.dispatchEvent(new Event("select"));
    });
    area.addEventListener("pointerup", () => this.dispatchEvent(new Event("point")));
    area.addEventListener("pointermove", (event) => this.#hover(event));
    area.addEventListener("pointerleave", () => (this.#tip.hidden = true));
  }

  get text() {
    return this.#area.value;
  }

  get selection() {
    return [this.#area.selectionStart, this.#area.selectionEnd];
  }

  show(text) {
    if (this.#area.value === text) return;
    const [start] = this.selection;
    this.#area.value = text;
    this.select(Math.min(start, text.length));
  }

  /** Puts the caret somewhere; nobody is told, because nobody but the page did it. */
  select(start, end = start) {
    this.#area.setSelectionRange(start, end);
    this.#noteSelection();
  }

  focus() {
    this.#area.focus();
  }

  /** Whether the selection is another one than when we last looked. */
  #noteSelection() {
    const selection = this.selection.join("-");
    const changed = selection !== this.#selection;
    this.#selection = selection;
    return changed;
  }

  /**
   * Draws the text with what is known about it, in UTF-16 offsets:
   * units ({start, end, heat, tip}) do not overlap, nor do marks ({start, end, kind}); gaps are ({at, heat, tip}).
   */
  draw(text, { units = [], gaps = [], marks = [] }) {
    const cuts = new Set([0, text.length]);
    for (const { start, end } of [...units, ...marks]) cuts.add(start).add(end);
    for (const { at } of gaps) cuts.add(at);
    const places = [...cuts].filter((at) => at >= 0 && at <= text.length).sort((a, b) => a - b);
    const pieces = [];
    places.forEach((start, i) => {
      pieces.push(...gaps.filter((gap) => gap.at === start).map((gap) => drawnGap(gap, text[start - 1])));
      const end = places[i + 1];
      if (end === undefined) return;
      const unit = units.find((unit) => unit.start <= start && end <= unit.end);
      const covering = marks.filter((mark) => mark.start <= start && end <= mark.end);
      if (!unit && !covering.length) return void pieces.push(text.slice(start, end));
      const piece = make("span", { className: "piece", "data-tip": unit?.tip }, text.slice(start, end));
      piece.classList.add(...covering.map((mark) => mark.kind));
      piece.style.setProperty("--heat", unit?.heat ?? 0);
      pieces.push(piece);
    });
    // A last line that is empty has no height unless something stands in it.
    this.#drawing.replaceChildren(...pieces, "\u200b");
  }

  #hover({ clientX, clientY }) {
    const below = document.elementsFromPoint(clientX, clientY).filter((element) => element.dataset?.tip);
    const found = below.find((element) => element.classList.contains("gap")) ?? below[0];
    this.#tip.hidden = !found;
    if (!found) return;
    this.#tip.textContent = found.dataset.tip;
    const box = found.getBoundingClientRect();
    const paper = this.#drawing.parentElement.getBoundingClientRect();
    const half = this.#tip.offsetWidth / 2;
    const centre = Math.min(Math.max(box.left + box.width / 2 - paper.left, half), paper.width - half);
    this.#tip.style.left = `${centre}px`;
    this.#tip.style.top = `${box.top - paper.top}px`;
  }
}

function drawnGap({ heat, tip, asked }, before = " ") {
  const gap = make("span", { className: "gap", "data-tip": tip });
  gap.classList.toggle("asked", Boolean(asked));
  gap.classList.toggle("narrow", !/\s/.test(before)); // before a comma there is no space to stand in
  gap.style.setProperty("--heat", heat);
  return gap;
}
