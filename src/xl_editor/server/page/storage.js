// What the browser keeps for the page. Where it keeps nothing, it is known for as long as the page is open.

const unkept = new Map();

/** `kind` is "localStorage" or "sessionStorage". */
export function remember(kind, key, value) {
  unkept.set(key, value);
  try {
    window[kind].setItem(key, value);
  } catch {
    // blocked, or full
  }
}

export function recall(kind, key) {
  try {
    return window[kind].getItem(key) ?? unkept.get(key) ?? null;
  } catch {
    return unkept.get(key) ?? null;
  }
}
