// A link that carries a text and settings. They stand after the #, which browsers do not send to any server.

export function linkWith(text, settings) {
  const carried = new URLSearchParams(settings);
  carried.set("text", text);
  return `${location.origin}${location.pathname}#${carried}`;
}

/** What the page's address carries: {text, settings}, or null. */
export function carriedByLink() {
  const { text, ...settings } = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  return text === undefined ? null : { text, settings };
}
