// The history panel: every state of the document, to step to; and its export.

import { byId, download, make } from "./dom.js";
import { asDiff, asJson } from "./export.js";

const KINDS = {
  opened: "text",
  typed: "by hand",
  insert: "suggestion",
  replace: "suggestion",
  delete: "suggestion",
  fill: "blanks",
  style: "style",
  rejected: "taken back",
};

export class HistoryPanel {
  #document;

  constructor(document) {
    this.#document = document;
    byId("undo").addEventListener("click", () => document.undo());
    byId("redo").addEventListener("click", () => document.redo());
    byId("export-text").addEventListener("click", () => download("text.txt", "text/plain", document.text));
    byId("export-diff").addEventListener("click", () => download("changes.diff", "text/x-diff", asDiff(document)));
    byId("export-json").addEventListener("click", () => download("changes.json", "application/json", asJson(document)));
  }

  render() {
    const { states, index, canUndo, canRedo } = this.#document;
    byId("undo").disabled = !canUndo;
    byId("redo").disabled = !canRedo;
    byId("export-diff").disabled = this.#document.sinceOpened[0].text === this.#document.text;
    const list = byId("states");
    const focused = [...list.querySelectorAll("button")].indexOf(document.activeElement);
    const items = states.map((state, i) => {
      const label = make("span", { className: "words" }, state.label);
      const kind = make("span", { className: "number" }, KINDS[state.kind]);
      const button = make("button", { type: "button", "aria-current": i === index ? "step" : null }, label, kind);
      button.classList.toggle("ahead", i > index);
      button.addEventListener("click", () => this.#document.goTo(i));
      return make("li", {}, button);
    });
    list.replaceChildren(...items);
    if (focused >= 0) list.querySelectorAll("button")[focused]?.focus();
  }
}
