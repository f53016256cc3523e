// What the model thinks of a text as it stands: where something seems missing, and what fits badly.

import { between, multiple, percent } from "./numbers.js";
import { changeBetween, unitOffsets } from "./text.js";

const ALL = 200; // the most that the API lists
const WORTH_A_LOOK = 0.5; // of the heat
// From which logarithm of a perplexity ratio on a unit begins to glow, and where it glows most. Any sentence is far
// less likely than no sentence, any word only a little less than no word.
const GLOW = { word: [1, 8], sentence: [3, 9] };

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
  const units = deletions.map(({ start, end, perplexity_ratio }) => {
    const misfit = Math.log(perplexity_ratio);
    const number = misfit > 0 ? `${multiple(misfit)} × worse` : "";
    const tip = number ? `Fits ${number} than nothing` : "Fits well";
    const [low, high] = GLOW[unit];
    return { start: offsets[start], end: offsets[end], heat: between(low, misfit, high), number, tip };
  });
  return { gaps, units };
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
