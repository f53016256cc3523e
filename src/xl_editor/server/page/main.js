// Where the parts of the page meet.

import { ask, getModels, Refusal, useKey } from "./api.js";
import { Document } from "./document.js";
import { byId, make, setOptions } from "./dom.js";
import { EXAMPLES } from "./examples.js";
import { carriedOver, findHeat, ofWholeWords, tipAt, worthALook } from "./heat.js";
import { HistoryPanel } from "./history-panel.js";
import { standing } from "./review.js";
import { carriedByLink, linkWith } from "./share.js";
import { Sheet } from "./sheet.js";
import { recall, remember } from "./storage.js";
import { attempt, newTeller, note, say } from "./status.js";
import { StylePanel } from "./style-panel.js";
import { fillingsOf, insertionsAt, replacementsOf, Suggestions } from "./suggestions.js";
import { BLANK, changeBetween, countCodePoints, findBlanks, placeOf } from "./text.js";

const AFTER_TYPING = 500; // ms of rest before the model reads the text
const AFTER_MOVING = 200; // ms of rest before it is asked about a place
// That a link carries; the models first: which styles there are to choose from depends on them.
const SETTINGS = ["unit", "model", "style-model", "voice", "target", "threshold", "steps"];
const FIND = { gap: insertionsAt, span: replacementsOf, blanks: fillingsOf };

const text = new Document();
const sheet = new Sheet();
const history = new HistoryPanel(text);
const style = new StylePanel(text, askForKey);
const suggestions = new Suggestions(text, lookAt);
const reading = latestOf("heat", AFTER_TYPING);
const suggesting = latestOf("suggestions", AFTER_MOVING);

let models = [];
let limits = { characters: Infinity, transferred_characters: Infinity, steps: 1 };
let heat = { text: "", gaps: [], units: [] }; // of the text that it carries, which may have changed since
let place = null; // that the suggestions are about
let shown = null; // the text that the page last showed

// --- asking the model ----------------------------------------------------------------------------------------

/** Of several questions of a kind only the last counts: those before it are called off. */
function latestOf(who, delay) {
  let controller = new AbortController();
  function stop() {
    controller.abort();
    say(who, null);
  }
  /** After a moment of rest, does a task with a function that asks the server. */
  function start(task) {
    stop();
    const { signal } = (controller = new AbortController());
    const asking = (operation, body) => ask(operation, { ...body, ...settings() }, signal, newTeller());
    const timer = setTimeout(() => attempt(who, () => task(asking).catch(askForKey)), delay);
    signal.addEventListener("abort", () => clearTimeout(timer));
  }
  return { start, stop };
}

/** A server that wants a key, or has another one now, is given it in a form. */
function askForKey(refusal) {
  if (refusal.kind === "unauthorized") byId("key-form").hidden = false;
  throw refusal;
}

function settings() {
  return { model: byId("model").value, style: byId("voice").value || null };
}

function canAsk() {
  return models.length > 0 && text.text.trim() !== "" && tooMany() <= 0;
}

function tooMany() {
  return countCodePoints(text.text) - limits.characters;
}

/** The model reads the whole text. */
function read() {
  reading.stop();
  const now = text.text;
  if (!canAsk() || findBlanks(now).length || heat.text === now) return;
  reading.start(async (asking) => {
    byId("paper").setAttribute("aria-busy", "true");
    try {
      heat = { text: now, ...(await findHeat(asking, now, byId("unit").value)) };
    } catch (refusal) {
      if (refusal instanceof Refusal && !place && text.text === now) suggestions.showNothing("Not read", "");
      throw refusal;
    } finally {
      byId("paper").removeAttribute("aria-busy");
    }
    draw();
    if (!place) suggestions.showPlaces(now, worthALook(heat));
  });
}

/** The model is asked about a place; about none, the hottest places are shown. */
function askAbout(asked) {
  suggesting.stop();
  const now = text.text;
  place = asked;
  draw();
  if (!asked || !canAsk()) {
    place = null;
    if (now.trim() === "") suggestions.showPlaces(now, []);
    else if (!canAsk()) suggestions.showNothing(tooMany() > 0 ? "Too long to read" : "Not read yet", "");
    else if (heat.text === now) suggestions.showPlaces(now, worthALook(heat));
    else suggestions.showNothing("Reading …", "");
    return;
  }
  const tip = heat.text === now ? tipAt(heat, asked) : "";
  suggestions.showWaiting(now, asked, tip);
  suggesting.start(async (asking) => {
    try {
      suggestions.show(now, asked, tip, await FIND[asked.kind](asking, now, asked));
    } catch (refusal) {
      if (refusal instanceof Refusal && place === asked && text.text === now) suggestions.showNothing("No suggestions", "");
      throw refusal;
    }
  });
}

/** What the caret or the selection asks about. While there are blanks, these are the question. */
function askAboutSelection() {
  if (findBlanks(text.text).length) return;
  const asked = ofWholeWords(heat, placeOf(text.text, ...sheet.selection), text.text);
  if (asked.kind === place?.kind && asked.start === place.start && asked.end === place.end) return;
  open("suggest");
  askAbout(asked);
}

function lookAt({ kind, start, end }) {
  open("suggest");
  sheet.focus();
  sheet.select(start, end);
  askAbout({ kind, start, end });
}

/** The next of the hottest places after the caret, round and round. */
function lookAtNext() {
  const places = worthALook(heat).sort((a, b) => a.start - b.start || a.end - b.end);
  const current = places.findIndex((one) => one.kind === place?.kind && one.start === place.start);
  const next = places[current + 1] ?? places[0];
  const after = places.find(({ start }) => start > sheet.selection[0]) ?? places[0];
  if (heat.text === text.text && places.length) lookAt(current < 0 ? after : next);
}

function lookAtSuggestions() {
  open("suggest");
  suggestions.focusFirst();
}

// --- showing -------------------------------------------------------------------------------------------------

function draw() {
  const now = text.text;
  const blanks = findBlanks(now).map(([start, end]) => ({ start, end, kind: "blank" }));
  const { gaps, units } = blanks.length || !canAsk() ? { gaps: [], units: [] } : carriedOver(heat, now);
  const marks = [...blanks, ...standing(text.now.review).map((range) => ({ ...range, kind: "edited" }))];
  let drawnGaps = gaps;
  if (place?.kind === "span") marks.push({ ...place, kind: "asked" });
  if (place?.kind === "gap") {
    const asked = { heat: 0, ...gaps.find((gap) => gap.at === place.start), at: place.start, asked: true };
    drawnGaps = [...gaps.filter((gap) => gap.at !== place.start), asked];
  }
  sheet.draw(now, { gaps: drawnGaps, units, marks });
}

/** After every change of the document. */
function show() {
  const now = text.text;
  if (now !== shown) {
    const change = changeBetween(shown ?? "", now);
    shown = now;
    const byHand = sheet.text === now;
    sheet.show(now);
    if (!byHand) sheet.select(change.start + change.inserted.trimEnd().length);
    showLength();
    // A suggestion that was applied or taken back leaves the others where they are.
    if (suggestions.follows(now)) place = null;
    else askAbout(canAsk() && findBlanks(now).length ? { kind: "blanks", start: 0, end: now.length } : null);
    read();
  }
  draw();
  history.render();
  const toRevise = countCodePoints(text.text) - limits.transferred_characters;
  byId("too-long-to-revise").hidden = toRevise <= 0;
  // Who only hears the page is told of it with the button, also while it is hidden.
  byId("too-long-to-revise").textContent =
    toRevise > 0 ? `To be revised, the text is ${toRevise} characters too long.` : "";
  style.render(canAsk() && toRevise <= 0);
}

function showLength() {
  const count = byId("count");
  const n = countCodePoints(text.text);
  count.textContent = n > 0.8 * limits.characters ? `${n} of ${limits.characters} characters` : "";
  count.classList.toggle("over", tooMany() > 0);
  const words = `The text is ${tooMany()} characters too long. Shorten it to see heat and suggestions again.`;
  say("length", tooMany() > 0 ? { kind: "error", text: words } : null);
}

function open(tab) {
  for (const button of document.querySelectorAll("[role=tab]")) {
    const isOpen = button.id === `tab-${tab}`;
    button.setAttribute("aria-selected", String(isOpen));
    button.tabIndex = isOpen ? 0 : -1;
    byId(button.getAttribute("aria-controls")).hidden = !isOpen;
  }
}

function showModels() {
  const withStyles = models.filter((model) => model.styles.length > 1);
  setOptions(byId("model"), models.map(({ name }) => [name, name]));
  setOptions(byId("style-model"), withStyles.map(({ name }) => [name, name]));
  byId("model-choice").hidden = models.length < 2;
  byId("style-model-choice").hidden = withStyles.length < 2;
  byId("style-form").hidden = !withStyles.length;
  byId("no-styles").hidden = withStyles.length > 0;
  byId("steps").max = limits.steps;
  showVoices();
  showTargets();
}

function chosen(id) {
  return models.find(({ name }) => name === byId(id).value);
}

/** Depends on which model suggests. */
function showVoices() {
  const { styles, style_optional } = chosen("model");
  setOptions(byId("voice"), [...(style_optional ? [["", "any style"]] : []), ...styles.map((name) => [name, name])]);
  byId("voice-choice").hidden = styles.length === 0;
}

/** Depends on which model revises. */
function showTargets() {
  const styled = chosen("style-model");
  if (!styled) return;
  setOptions(byId("target"), styled.styles.map((name) => [name, name]), byId("target").value || styled.styles.at(-1));
  byId("threshold").value = styled.presets.default.threshold;
  byId("steps").value = styled.presets.default.max_steps;
  style.showSettings();
}

// --- settings, links, looks ----------------------------------------------------------------------------------

function readAgain() {
  heat = { text: "", gaps: [], units: [] };
  const again = place;
  askAbout(null);
  if (again) askAbout(again);
  read();
}

function openLink() {
  const carried = carriedByLink();
  if (!carried) return;
  for (const id of SETTINGS) {
    choose(byId(id), carried.settings[id]);
    if (id === "model" && models.length) showVoices();
    if (id === "style-model" && models.length) showTargets();
  }
  style.showSettings();
  text.open(carried.text, "Opened a link");
  if (models.length) readAgain(); // the same text may be meant for another model
}

/** A link may come from a server with other models and styles: what is not there to be chosen is left as it is. */
function choose(control, value) {
  if (value === undefined || !control) return;
  if (!control.options || [...control.options].some((option) => option.value === value)) control.value = value;
}

async function share() {
  const values = Object.fromEntries(SETTINGS.map((id) => [id, byId(id).value]));
  const link = linkWith(text.text, values);
  window.history.replaceState(null, "", link);
  try {
    await navigator.clipboard.writeText(link);
    note("The link is copied. It carries the text and the settings.");
  } catch {
    note("The link is in the address bar. It carries the text and the settings.");
  }
}

function exampleButton([name, content]) {
  const button = make("button", { type: "button", className: "quiet" }, name);
  button.addEventListener("click", () => {
    byId("examples").open = false;
    text.open(content, "Opened an example");
    sheet.focus();
  });
  return make("li", {}, button);
}

function useTheme(theme) {
  document.documentElement.dataset.theme = theme;
  byId("theme").setAttribute("aria-pressed", String(theme === "dark"));
}

async function begin() {
  const given = await attempt("begin", () => getModels(newTeller()).catch(askForKey));
  if (!given) return;
  byId("key-form").hidden = true;
  const isFirst = !models.length;
  models = given.models;
  // A gap is asked about by a blank in it, which must find room, too.
  limits = { ...given.limits, characters: given.limits.characters - BLANK.length - 1 };
  showModels();
  if (isFirst) openLink();
  shown = null;
  show();
}

function listen() {
  text.addEventListener("change", show);
  sheet.addEventListener("type", () => text.type(sheet.text));
  sheet.addEventListener("undo", () => text.undo());
  sheet.addEventListener("redo", () => text.redo());
  sheet.addEventListener("select", askAboutSelection);
  sheet.addEventListener("point", askAboutSelection);
  for (const id of ["unit", "voice"]) byId(id).addEventListener("change", readAgain);
  byId("model").addEventListener("change", () => {
    showVoices();
    readAgain();
  });
  byId("style-model").addEventListener("change", showTargets);
  byId("share").addEventListener("click", share);
  window.addEventListener("hashchange", openLink);

  byId("example-list").append(...EXAMPLES.map(exampleButton));
  // The focus, without which the list closes, stays until the click.
  byId("example-list").addEventListener("mousedown", (event) => event.preventDefault());
  byId("examples").addEventListener("focusout", ({ relatedTarget }) => {
    if (!byId("examples").contains(relatedTarget)) byId("examples").open = false;
  });
  byId("examples").addEventListener("keydown", ({ key }) => {
    if (key !== "Escape") return;
    byId("examples").open = false;
    byId("examples").querySelector("summary").focus();
  });

  const dark = matchMedia("(prefers-color-scheme: dark)");
  useTheme(recall("localStorage", "theme") ?? (dark.matches ? "dark" : "light"));
  byId("theme").addEventListener("click", () => {
    const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    remember("localStorage", "theme", theme);
    useTheme(theme);
  });

  for (const tab of document.querySelectorAll("[role=tab]")) {
    tab.addEventListener("click", () => open(tab.id.replace("tab-", "")));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: "nextElementSibling", ArrowLeft: "previousElementSibling" }[event.key];
      tab[step]?.click();
      tab[step]?.focus();
    });
  }

  document.addEventListener("keydown", (event) => {
    if (event.key === "F8") lookAtNext();
    else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) lookAtSuggestions();
    else if (event.key === "Escape" && byId("panel").contains(document.activeElement)) sheet.focus();
    else return;
    event.preventDefault();
  });

  byId("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const key = byId("key").value;
    if (/[^\x20-\x7e]/.test(key)) {
      say("begin", { kind: "error", text: "A key has plain letters, digits and signs only." });
      return;
    }
    useKey(key);
    begin();
  });
}

listen();
show();
begin();
