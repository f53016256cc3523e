// Elements, made and found. Text only ever goes in as text.

export function byId(id) {
  return document.getElementById(id);
}

/** An element with properties (data-, aria- and role as attributes), and children or strings. */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined) continue;
    if (name.includes("-") || name === "role") element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children);
  return element;
}

/** A select's options: [value, label] each. The value that was chosen stays, if it is still there. */
export function setOptions(select, options, chosen = select.value) {
  select.replaceChildren(...options.map(([value, label]) => make("option", { value }, label)));
  if (options.some(([value]) => value === chosen)) select.value = chosen;
}

export function download(name, type, content) {
  const url = URL.createObjectURL(new Blob([content], { type }));
  make("a", { href: url, download: name }).click();
  URL.revokeObjectURL(url);
}
