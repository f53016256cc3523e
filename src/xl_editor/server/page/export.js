// A document's history for other programs. No DOM in here.

import { changeBetween, codePoints } from "./text.js";

const NO_NEWLINE = "\n\\ No newline at end of file\n";

/** The shape of a trace of the API: edits one after the other, offsets in code points. */
export function asJson(document) {
  const [opened, ...states] = document.sinceOpened;
  let before = opened.text;
  const edits = states.map(({ text, kind, details }) => {
    const change = changeBetween(before, text);
    const removed = change.removed.trim();
    const inserted = change.inserted.trim();
    const at = change.start + change.removed.search(/\S|$/);
    const newAt = change.start + change.inserted.search(/\S|$/);
    const edit = {
      by: kind,
      operation: !inserted ? "delete" : removed ? "replace" : "insert",
      start: codePoints(before, at),
      end: codePoints(before, at + removed.length),
      removed,
      inserted,
      text,
      span: [codePoints(text, newAt), codePoints(text, newAt + inserted.length)],
      ...details,
    };
    before = text;
    return edit;
  });
  return JSON.stringify({ source: opened.text, text: document.text, edits }, null, 2) + "\n";
}

/** A unified diff, which `patch` understands, from the text as it was opened to the text as it is. */
export function asDiff(document) {
  const [before, after] = [document.sinceOpened[0].text, document.text];
  if (before === after) return "";
  const [old, now] = [linesOf(before), linesOf(after)];
  const lines = pairUp(old, now).map(([mark, line]) => `${mark}${line}${line.endsWith("\n") ? "" : NO_NEWLINE}`);
  const range = (part) => `${Math.min(1, part.length)},${part.length}`;
  return `--- before.txt\n+++ after.txt\n@@ -${range(old)} +${range(now)} @@\n${lines.join("")}`;
}

/** Each with its line end; the last one may have none. */
function linesOf(text) {
  return text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
}

/** Lines of both texts in the order of a diff, with their marks, by the longest common subsequence. */
function pairUp(old, now) {
  const common = Array.from({ length: old.length + 1 }, () => new Array(now.length + 1).fill(0));
  for (let i = old.length - 1; i >= 0; i -= 1) {
    for (let j = now.length - 1; j >= 0; j -= 1) {
      const same = old[i] === now[j];
      common[i][j] = same ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
    }
  }
  const lines = [];
  let [i, j] = [0, 0];
  while (i < old.length || j < now.length) {
    if (i < old.length && j < now.length && old[i] === now[j]) {
      lines.push([" ", old[i]]);
      i += 1;
      j += 1;
    } else if (i < old.length && (j === now.length || common[i + 1][j] >= common[i][j + 1])) {
      lines.push(["-", old[i]]);
      i += 1;
    } else {
      lines.push(["+", now[j]]);
      j += 1;
    }
  }
  return lines;
}
