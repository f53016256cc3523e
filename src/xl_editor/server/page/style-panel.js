// The style panel: a run towards a target style, its edits one by one as they are made, and the review of them.

import { pause, streamTransfer } from "./api.js";
import { byId, make } from "./dom.js";
import { odds, percent, signed } from "./numbers.js";
import { accept, canReject, follow, newEdit, reject } from "./review.js";
import { attempt, newTeller } from "./status.js";
import { changeFrom } from "./text.js";

const BETWEEN_EDITS = 600; // ms, so that each can be seen to happen
const calm = matchMedia("(prefers-reduced-motion: reduce)");

export class StylePanel {
  #document;
  #onRefusal;
  #running = null; // the AbortController of a run
  #expected = ""; // the text, as long as only the run changes it
  #kept = new Set(); // words of rejected edits, which the next run leaves alone
  #nextId = 0;

  /** `onRefusal` hears of what the server refuses, and throws it again. */
  constructor(document, onRefusal) {
    this.#document = document;
    this.#onRefusal = onRefusal;
    byId("run").addEventListener("click", () => (this.#running ? this.#running.abort() : this.#run()));
    byId("accept-all").addEventListener("click", () => {
      this.#accept(document.now.review.map((edit) => edit.id));
      byId("run").focus();
    });
    for (const id of ["threshold", "steps"]) byId(id).addEventListener("input", () => this.showSettings());
  }

  /** The sliders' values, in words. */
  showSettings() {
    byId("threshold-shown").textContent = `log f ≥ ${Number(byId("threshold").value).toFixed(1).replace("-", "−")}`;
    byId("steps-shown").textContent = byId("steps").value;
  }

  /** Shows the run as the document has it now. `canAsk`: whether the text is one that the server accepts. */
  render(canAsk) {
    this.canAsk = canAsk;
    // Whoever goes on writing, or steps back, takes the pen: the run is over.
    if (this.#document.text !== this.#expected) this.#running?.abort();
    const run = byId("run");
    run.textContent = this.#running ? "Stop" : "Revise";
    run.disabled = !this.#running && !canAsk;
    const { review } = this.#document.now;
    redrawn(byId("edits"), review.map((edit) => this.#card(edit, review)));
    byId("accept-all").hidden = review.filter((edit) => edit.status === "pending").length < 2;
    byId("kept").hidden = this.#kept.size === 0;
    redrawn(byId("kept-words"), [...this.#kept].map((word) => this.#keptWord(word)));
  }

  async #run() {
    const running = (this.#running = new AbortController());
    const document = this.#document;
    const target = byId("target").value;
    const body = {
      text: document.text,
      to: target,
      model: byId("style-model").value,
      threshold: Number(byId("threshold").value),
      max_steps: Number(byId("steps").value),
      keep: [...this.#kept].slice(0, 100),
    };
    let outcome = "";
    byId("outcome").textContent = "Reading …";
    this.#expected = document.text;
    document.amend({ review: [] });
    const run = async () => {
      for await (const { name, data } of streamTransfer(body, running.signal, newTeller())) {
        if (name === "trace") {
          outcome = summary(data, target);
        } else {
          byId("outcome").textContent = "Revising …";
          this.#make(data, target);
          if (!calm.matches) await pause(BETWEEN_EDITS, running.signal);
        }
      }
    };
    await attempt("style", () => run().catch(this.#onRefusal));
    byId("outcome").textContent = running.signal.aborted ? "Stopped." : outcome;
    this.#running = null;
    this.render(this.canAsk);
  }

  /** An edit of the run happens. */
  #make(answer, target) {
    const document = this.#document;
    const change = changeFrom(document.text, answer.change);
    this.#expected = answer.text;
    const edit = newEdit((this.#nextId += 1), { ...answer, target }, change);
    document.apply(answer.text, "style", answer, [...follow(document.now.review, change, edit.id), edit], change);
  }

  #accept(ids) {
    this.#document.amend({ review: accept(this.#document.now.review, ids) });
  }

  #reject(edit) {
    for (const word of edit.answer.removed.split(/\s+/)) {
      const bare = word.replace(/^[^\p{L}\p{N}]+|[^\p{L}\p{N}]+$/gu, "");
      if (bare) this.#kept.add(bare.toLowerCase());
    }
    const { text, edits } = reject(this.#document.text, this.#document.now.review, edit.id);
    this.#document.apply(text, "rejected", {}, edits);
  }

  #card(edit, review) {
    const { removed, inserted, log_odds, style_before, style_after, target } = edit.answer;
    const change = make("p", { className: "change" });
    if (removed) change.append(make("del", {}, removed));
    if (removed && inserted) change.append(" → ");
    if (inserted) change.append(make("ins", {}, inserted));
    const card = make("li", { className: "edit", "data-status": edit.status, "data-id": edit.id }, change);
    if (log_odds === null) card.append(make("p", { className: "number" }, "forced: nothing else was worth its cost"));
    else {
      const title = `log f ${signed(log_odds)}`;
      card.append(make("p", { className: "number", title }, `was ${odds(-log_odds)} in ${target}`));
    }
    if (style_before && style_after) card.append(swing(target, style_before[target], style_after[target]));
    card.append(this.#choices(edit, review));
    return card;
  }

  #choices(edit, review) {
    const choices = make("p", { className: "choices" });
    if (edit.status === "rejected") choices.append("Rejected");
    else if (!canReject(review, edit)) choices.append("You have rewritten these words since.");
    else {
      if (edit.status === "accepted") choices.append(make("span", {}, "Accepted"));
      else choices.append(this.#button("Accept", edit, () => this.#accept([edit.id])));
      choices.append(this.#button("Reject", edit, () => this.#reject(edit)));
    }
    return choices;
  }

  #button(label, edit, onClick) {
    const what = edit.answer.inserted || `the deletion of ${edit.answer.removed}`;
    const named = { className: label.toLowerCase(), "aria-label": `${label} “${what}”` };
    const button = make("button", { type: "button", ...named }, label);
    button.addEventListener("click", onClick);
    return button;
  }

  #keptWord(word) {
    const named = { className: "kept-word", title: "May be edited again", "data-id": word };
    const button = make("button", { type: "button", ...named }, `${word} ×`);
    button.addEventListener("click", () => {
      this.#kept.delete(word);
      this.render(this.canAsk);
    });
    return button;
  }
}

/** Draws a list anew; whoever uses the keyboard in it stays at the same item and button, or as near as there is one. */
function redrawn(list, items) {
  const focused = list.contains(document.activeElement) ? document.activeElement : null;
  const item = focused?.closest("[data-id]");
  const index = [...list.children].indexOf(item);
  list.replaceChildren(...items);
  if (!focused) return;
  const same = items.find(({ dataset }) => dataset.id === item.dataset.id) ?? list.children[index];
  const buttons = same?.matches("button") ? [same] : [...(same?.querySelectorAll("button") ?? [])];
  (buttons.find(({ className }) => className === focused.className) ?? buttons[0] ?? byId("run")).focus();
}

/** How an edit moved the classifier. */
function swing(target, before, after) {
  const bar = make("span", { className: "swing-bar", "aria-hidden": "true" });
  bar.style.setProperty("--before", before);
  bar.style.setProperty("--after", after);
  return make("p", { className: "swing number" }, `${target} ${percent(before)} → ${percent(after)}`, bar);
}

function summary(trace, target) {
  const [before, after] = [trace.style_before[target], trace.style_after[target]];
  const why = trace.stopped[0].toUpperCase() + trace.stopped.slice(1);
  if (!trace.edits.length) return `Nothing changed: ${trace.stopped}. The text is ${target} by ${percent(before)}.`;
  return `${why}. The whole text: ${target} by ${percent(before)} before, ${percent(after)} after.`;
}
