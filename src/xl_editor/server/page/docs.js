// The API's own description, as text: no library, and nothing from other hosts.

const api = await (await fetch("/openapi.json")).json();
const list = document.getElementById("operations");
list.textContent = "";

for (const [path, methods] of Object.entries(api.paths)) {
  for (const [method, operation] of Object.entries(methods)) {
    add("h2", `${method.toUpperCase()} ${path}`);
    add("p", operation.description ?? "");
    const reference = operation.requestBody?.content["application/json"]?.schema?.$ref;
    if (reference) addFields(api.components.schemas[reference.split("/").pop()]);
  }
}

function addFields(schema) {
  const fields = add("dl");
  for (const [name, field] of Object.entries(schema.properties)) {
    const required = schema.required?.includes(name) ? ", required" : "";
    fields.append(element("dt", name + required), element("dd", JSON.stringify(field)));
  }
}

function add(tag, text = "") {
  const added = element(tag, text);
  list.append(added);
  return added;
}

function element(tag, text) {
  const made = document.createElement(tag);
  made.textContent = text;
  return made;
}
