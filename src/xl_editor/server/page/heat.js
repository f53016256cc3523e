// What the model thinks of a text as it stands: where something seems missing, and what fits badly.

import { between, multiple, percent, signed } from "./numbers.js";
import { changeBetween, unitOffsets } from "./text.js";

const ALL = 200; // the most that the API lists
const WORTH_A_LOOK = 0.5; // of the heat
// Where a unit begins to glow, and where it glows most: a word by the logarithm of its perplexity ratio, a sentence by
// how much less it and the rest tell about each other, in nats a token, than most sentences here do.
const GLOW = { word: [1, 8], sentence: [0, 0.2] };

/** Asks for both kinds of heat; `ask` is (operation, body) → answer. */
export async function findHeat(ask, text, unit) {
  const [{ slots }, { deletions }] = await Promise.all([
    ask("locate", { text, top: ALL }),
    ask("delete", { text, unit, top: ALL }),
  ]);
  const offsets = unitOffsets(text);
  const gaps = slots.map((slot) => {
    const missing = 1 - Math.exp(slot.logprob_end);
    const number = percent(missing);
    return { at: offsets[slot.char], heat: missing, number, tip: `Something missing here: ${number}` };
  });
  const measured = unit === "sentence" ? strangeness(deletions) : deletions.map(misfit);
  const [low, high] = GLOW[unit];
  const units = deletions.map(({ start, end }, i) => {
    const { value, number, tip } = measured[i];
    return { start: offsets[start], end: offsets[end], heat: between(low, value, high), number, tip };
  });
  return { gaps, units, unit };
}

function misfit({ perplexity_ratio }) {
  const value = Math.log(perplexity_ratio);
  const number = value > 0 ? `${multiple(value)} × worse` : "";
  return { value, number, tip: number ? `Fits ${number} than nothing` : "Fits well" };
}

/** Of sentences, which come with the strangest first. */
function strangeness(deletions) {
  const usual = deletions[Math.floor(deletions.length / 2)]?.information;
  return deletions.map(({ information }) => {
    const number = signed(information);
    const tip = information < usual ? "Has less to do with the rest than most" : "Belongs to the rest";
    return { value: usual - information, number, tip: `${tip}: ${number}` };
  });
}

/** A place with no part of a word left out, as far as is known what the model takes for a word. */
export function ofWholeWords({ text, units, unit }, place, now) {
  if (text !== now || unit !== "word") return place;
  const cut = units.filter(({ start, end }) =>
    place.kind === "gap" ? start < place.start && place.start < end : start < place.end && place.start < end);
  if (!cut.length) return place;
  const start = Math.min(place.start, ...cut.map((one) => one.start));
  return { kind: "span", start, end: Math.max(place.end, ...cut.map((one) => one.end)) };
}

/** The heat of a text that has changed since, where it has not changed: so nothing flickers while one writes. */
export function carriedOver({ text, gaps, units }, now) {
  if (text === now) return { gaps, units };
  const { start, removed, inserted } = changeBetween(text, now);
  const end = start + removed.length;
  const shift = (at) => (at < end ? at : at + inserted.length - removed.length);
  return {
    gaps: gaps.filter(({ at }) => at < start || at > end).map((gap) => ({ ...gap, at: shift(gap.at) })),
    units: units
      .filter((unit) => unit.end <= start || unit.start >= end)
      .map((unit) => (unit.end <= start ? unit : { ...unit, start: shift(unit.start), end: shift(unit.end) })),
  };
}

/** The hottest places, the hottest first. */
export function worthALook({ gaps, units }) {
  const places = [
    ...gaps.map((gap) => ({ ...gap, kind: "gap", start: gap.at, end: gap.at })),
    ...units.map((unit) => ({ ...unit, kind: "span" })),
  ];
  return places.filter((place) => place.heat >= WORTH_A_LOOK).sort((a, b) => b.heat - a.heat);
}

/** What is known about a place that the writer asks about, or "". */
export function tipAt({ gaps, units }, place) {
  if (place.kind === "gap") return gaps.find((gap) => gap.at === place.start)?.tip ?? "";
  return units.find((unit) => unit.start === place.start && unit.end === place.end)?.tip ?? "";
}
