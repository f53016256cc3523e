// The edits of a style run, which the writer accepts or rejects. No DOM in here.
//
// The rule: rejecting an edit puts back what it took out, and leaves everything else as it is. An edit that was made
// on top of it, on the very words it had put in, goes with it. Where the writer has since changed those words by hand,
// there is nothing left to reject.
//
// For that, every edit knows where its words stand now (`at`), and moves along with every other change of the text.

import { withChange } from "./text.js";

/** A new edit of a run: the server's answer, and the change of the text that it comes to. */
export function newEdit(id, answer, change) {
  const { start, removed, inserted } = change;
  return { id, answer, status: "pending", at: start, removed, inserted, under: null };
}

/** The edits after a change of the text, which was made by another edit (`by` its id) or by the writer's hand. */
export function follow(edits, change, by = "writer") {
  const [start, end] = [change.start, change.start + change.removed.length];
  return edits.map((edit) => {
    if (edit.status === "rejected" || edit.under !== null) return edit;
    if (end <= edit.at) return { ...edit, at: edit.at + change.inserted.length - change.removed.length };
    if (start >= edit.at + edit.inserted.length) return edit;
    return { ...edit, under: by, offset: edit.at - start };
  });
}

export function canReject(edits, edit) {
  if (edit.status === "rejected" || edit.under === "writer") return false;
  return edit.under === null || canReject(edits, find(edits, edit.under));
}

/** The text and the edits without this one, and without what was made on top of it. */
export function reject(text, edits, id) {
  const above = find(edits, id).under;
  if (above !== null) ({ text, edits } = reject(text, edits, above));
  const edit = find(edits, id);
  const back = { start: edit.at, removed: edit.inserted, inserted: edit.removed };
  const others = follow(edits.filter((other) => other.id !== id), back, "writer");
  const moved = new Map(others.map((other) => [other.id, other]));
  edits = edits.map((other) => {
    if (other.id === id) return { ...other, status: "rejected" };
    if (other.under === id) return { ...other, under: null, at: edit.at + other.offset };
    return moved.get(other.id);
  });
  return { text: withChange(text, back), edits };
}

export function accept(edits, ids) {
  const isMeant = (edit) => ids.includes(edit.id) && edit.status === "pending";
  return edits.map((edit) => (isMeant(edit) ? { ...edit, status: "accepted" } : edit));
}

/** Where words of edits that still stand are in the text. */
export function standing(edits) {
  return edits
    .filter((edit) => edit.status !== "rejected" && edit.under === null && edit.inserted)
    .map(({ at, inserted }) => ({ start: at + inserted.search(/\S|$/), end: at + inserted.trimEnd().length }));
}

function find(edits, id) {
  return edits.find((edit) => edit.id === id);
}
