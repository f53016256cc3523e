// Text as the page and the server see it. No DOM in here.
//
// The server counts code points, JavaScript counts UTF-16 units, and an emoji is one of the former but two of the
// latter: every offset that comes or goes passes through `unitOffsets` or `codePoints`.

export const BLANK = "[_]";
const OPEN_BLANK = /(?<!\\)\[_\]/g;
const INSIDE_WORD = /[\p{L}\p{M}\p{N}'’\/_-]/u;

/** What may come into the document: one kind of line end, as a textarea has it, and no halves of characters. */
export function cleaned(text) {
  return text.replace(/\r\n?/g, "\n").toWellFormed();
}

export function countCodePoints(text) {
  let count = 0;
  for (const _ of text) count += 1;
  return count;
}

/** The server's offset for a place in a JavaScript string. */
export function codePoints(text, unit) {
  return countCodePoints(text.slice(0, unit));
}

/** For every offset of the server's, the place in the JavaScript string; the end included. */
export function unitOffsets(text) {
  const offsets = [];
  let unit = 0;
  for (const character of text) {
    offsets.push(unit);
    unit += character.length;
  }
  offsets.push(unit);
  return offsets;
}

export function findBlanks(text) {
  return [...text.matchAll(OPEN_BLANK)].map((found) => [found.index, found.index + BLANK.length]);
}

/** A text that asks to be filled at one place. What looks like a blank elsewhere was escaped by its writer already. */
export function withBlankAt(text, unit) {
  const left = text.slice(0, unit);
  return left + (left.endsWith("\\") ? " " : "") + BLANK + text.slice(unit);
}

/** The server takes the escapes away; without them a literal blank would become a real one. */
export function withEscapes(filled) {
  return filled.replaceAll(BLANK, `\\${BLANK}`);
}

/** What a selection asks about: a gap between words, or a span of whole ones. A caret inside a word means that word. */
export function placeOf(text, start, end) {
  while (start < end && isSpace(text[start])) start += 1;
  while (end > start && isSpace(text[end - 1])) end -= 1;
  while (isInsideWord(text, start)) start -= 1;
  while (isInsideWord(text, end)) end += 1;
  if (start < end) return { kind: "span", start, end };
  // On either side of a space it is the same gap; the server names it by the word that follows.
  while (end < text.length && isSpace(text[end])) end += 1;
  return { kind: "gap", start: end, end };
}

function isInsideWord(text, unit) {
  if (unit <= 0 || unit >= text.length) return false;
  return [unit - 1, unit].every((at) => INSIDE_WORD.test(text[at]) || isInnerMark(text, at));
}

/** As in U.S., yelp.com, 1,000 or 10:30. */
function isInnerMark(text, at) {
  const kind = { ".": INSIDE_WORD, ",": /\d/, ":": /\d/ }[text[at]];
  return kind !== undefined && kind.test(text[at - 1] ?? "") && kind.test(text[at + 1] ?? "");
}

/** A change that the server tells of ({start, end, replacement}), in the page's own offsets. */
export function changeFrom(text, { start, end, replacement }) {
  const units = unitOffsets(text);
  return { start: units[start], removed: text.slice(units[start], units[end]), inserted: replacement };
}

/** The one change, of whole words, that makes a text of another: {start, removed, inserted}. */
export function changeBetween(before, after) {
  const most = Math.min(before.length, after.length);
  let start = 0;
  while (start < most && before[start] === after[start]) start += 1;
  let tail = 0;
  while (tail < most - start && before.at(-1 - tail) === after.at(-1 - tail)) tail += 1;
  const cutsWord = (text, at) => at > 0 && at < text.length && !isSpace(text[at - 1]) && !isSpace(text[at]);
  while (cutsWord(before, start) || cutsWord(after, start)) start -= 1;
  while (tail > 0 && (cutsWord(before, before.length - tail) || cutsWord(after, after.length - tail))) tail -= 1;
  const cut = (text) => text.slice(start, text.length - tail);
  return { start, removed: cut(before), inserted: cut(after) };
}

export function withChange(text, { start, removed, inserted }) {
  return text.slice(0, start) + inserted + text.slice(start + removed.length);
}

function isSpace(character) {
  return /\s/.test(character);
}
