// The documentation: the server's openapi.json, to read and to try.

import { ServerError, getJson, send } from "./api.js";
import { apiKey } from "./keys.js";
import { fields, kindOf, resolve } from "./schema.js";

const IN_EXAMPLES = ["text", "input", "model", "voice", "requests"]; // fields, beside the required ones; the rest keep their defaults
const FILES = { "audio/wav": "speech.wav", "audio/mpeg": "speech.mp3", "application/zip": "speech.zip" };
const PLAYABLE = ["audio/wav", "audio/mpeg", "audio/ogg", "audio/flac", "audio/aac"];

const find = (selector) => document.querySelector(selector);

/** An element. Strings in its content are text; text between `backticks` becomes code. */
function element(name, properties, ...content) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...content.filter((part) => part !== null).flatMap((part) => (typeof part === "string" ? prose(part) : [part])));
  return made;
}

function prose(text) {
  return text.split(/`([^`]+)`/).map((part, i) => {
    if (i % 2 === 0) return part;
    const code = document.createElement("code");
    code.textContent = part;
    return code;
  });
}

function show(document_) {
  find("#version").textContent = document_.info.version;
  find("#about").replaceChildren(...prose(document_.info.description ?? ""));
  const sections = new Map();
  for (const [path, methods] of Object.entries(document_.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const tag = operation.tags?.[0] ?? "other";
      if (!sections.has(tag)) {
        const title = tag.charAt(0).toUpperCase() + tag.slice(1);
        sections.set(tag, element("section", {}, element("h2", {}, title)));
      }
      sections.get(tag).append(describe(document_, path, method.toUpperCase(), operation));
    }
  }
  find("#operations").replaceChildren(...sections.values());
}

function describe(document_, path, method, operation) {
  const [brief, ...more] = (operation.description ?? operation.summary ?? "").split("\n\n");
  const summary = element(
    "summary",
    {},
    element("span", { className: "method" }, method),
    element("code", {}, path),
    element("span", { className: "brief" }, brief),
  );
  const made = element("details", { className: "operation", id: `${method}${path}` }, summary);
  // The content is made when it is first opened.
  made.addEventListener("toggle", () => made.append(inside(document_, path, method, operation, more)), { once: true });
  return made;
}

function inside(document_, path, method, operation, paragraphs) {
  const body = operation.requestBody?.content ?? {};
  const schema = resolve(document_, body["application/json"]?.schema);
  const form = body["multipart/form-data"]?.schema;
  return element(
    "div",
    { className: "inside" },
    ...paragraphs.map((text) => element("p", {}, text)),
    parameterTable(document_, operation.parameters ?? []),
    form ? element("h3", {}, "Form") : null,
    form ? fieldTable(fields(document_, form)) : null,
    schema ? element("h3", {}, form ? "Or a body in JSON" : "Body") : null,
    schema ? fieldTable(fields(document_, schema)) : null,
    new Trial(path, method, operation, schema).element,
    element("h3", {}, "Answers"),
    answers(operation.responses),
  );
}

function parameterTable(document_, parameters) {
  const shown = parameters.map(({ name, in: place, required, schema, description }) => ({
    name,
    kind: `${kindOf(document_, schema)}, in the ${place}`,
    required,
    description,
  }));
  return shown.length ? fieldTable(shown) : null;
}

function fieldTable(rows) {
  return element(
    "table",
    {},
    ...rows.map(({ name, kind, required, description, default: usual }) =>
      element(
        "tr",
        {},
        element("th", { scope: "row" }, `\`${name}\``, required ? element("span", { className: "small" }, " required") : null),
        element("td", {}, description ?? "", element("div", { className: "small" }, kind + (usual === undefined ? "" : `; default ${JSON.stringify(usual)}`))),
      ),
    ),
  );
}

function answers(responses) {
  return element(
    "table",
    {},
    ...Object.entries(responses).map(([status, { description, content }]) =>
      element(
        "tr",
        {},
        element("th", { scope: "row" }, `\`${status}\``),
        element("td", {}, description, element("div", { className: "small" }, Object.keys(content ?? {}).join(" "))),
      ),
    ),
  );
}

function example(schema) {
  if (!schema.properties) return schema.examples?.[0] ?? {};
  const shown = [...IN_EXAMPLES, ...(schema.required ?? [])];
  const properties = Object.entries(schema.properties).filter(([name]) => shown.includes(name));
  return Object.fromEntries(properties.map(([name, { examples, default: usual }]) => [name, examples?.[0] ?? usual]));
}

/** A request to edit and send, and its answer. */
class Trial {
  #path;
  #method;
  #file;
  #body = null;
  #inputs = new Map(); // by the parameter they are for
  #command = element("code", {});
  #button = element("button", { type: "submit", className: "primary" }, "Send");
  #outcome = element("div", { className: "outcome" });

  constructor(path, method, operation, schema) {
    [this.#path, this.#method] = [path, method];
    const medium = Object.keys(operation.responses["200"]?.content ?? {}).find((name) => name in FILES);
    this.#file = path.startsWith("/v1/") && medium ? FILES["audio/mpeg"] : FILES[medium];
    for (const parameter of operation.parameters ?? []) this.#inputs.set(parameter, this.#input(parameter));
    if (schema) {
      const value = JSON.stringify(example(schema), null, 2);
      this.#body = element("textarea", { value, rows: value.split("\n").length + 1, spellcheck: false });
    }
    this.element = this.#form();
    this.#show();
  }

  #input({ name, schema }) {
    return element("input", { type: "text", placeholder: name, value: schema.examples?.[0] ?? "" });
  }

  #form() {
    const copy = element("button", { type: "button", className: "quiet" }, "Copy");
    copy.addEventListener("click", () => navigator.clipboard.writeText(this.#command.textContent));
    const form = element(
      "form",
      { className: "trial" },
      element("h3", {}, "Try it"),
      ...[...this.#inputs].map(([{ name }, input]) => element("label", {}, `\`${name}\``, input)),
      this.#body ? element("label", {}, element("span", { className: "visually-hidden" }, "Body"), this.#body) : null,
      element("div", { className: "command" }, element("pre", {}, this.#command), copy),
      this.#button,
      this.#outcome,
    );
    form.addEventListener("input", () => this.#show());
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#send();
    });
    return form;
  }

  #values(place) {
    return [...this.#inputs].filter(([parameter, input]) => parameter.in === place && input.value);
  }

  /** Relative to this page, so that a proxy may serve it below any path. */
  get #address() {
    const filled = this.#values("path").reduce(
      (path, [{ name }, input]) => path.replace(`{${name}}`, encodeURIComponent(input.value)),
      this.#path,
    );
    return filled.slice(1);
  }

  get #headers() {
    const given = Object.fromEntries(this.#values("header").map(([{ name }, input]) => [name, input.value]));
    return this.#body ? { "Content-Type": "application/json", ...given } : given;
  }

  #show() {
    const parts = [`curl ${new URL(this.#address, document.baseURI)}`];
    if (this.#method !== "GET" && !this.#body) parts.push(`-X ${this.#method}`);
    for (const [name, value] of Object.entries(this.#headers)) parts.push(`-H ${quoted(`${name}: ${value}`)}`);
    if (apiKey()) parts.push('-H "Authorization: Bearer $KOKORO_API_KEY"');
    if (this.#body) parts.push(`-d ${quoted(this.#body.value)}`);
    if (this.#file) parts.push(`-o ${this.#file}`);
    this.#command.textContent = parts.join(" \\\n  ");
  }

  async #send() {
    this.#button.disabled = true;
    this.#outcome.replaceChildren(element("p", {}, "Waiting for the answer…"));
    try {
      const started = performance.now();
      const response = await send(this.#address, {
        method: this.#method,
        headers: this.#headers,
        body: this.#body?.value,
        cache: "no-store",
      });
      const content = await response.blob();
      const seconds = ((performance.now() - started) / 1000).toFixed(2);
      this.#outcome.replaceChildren(...(await outcome(response, content, seconds)));
    } catch (error) {
      this.#outcome.replaceChildren(element("p", { className: "wrong" }, error.message));
    } finally {
      this.#button.disabled = false;
      this.#show();
    }
  }
}

async function outcome(response, content, seconds) {
  const facts = `${response.status} ${response.statusText}, ${content.size.toLocaleString()} bytes in ${seconds} s`;
  const head = element("p", { className: response.ok ? "" : "wrong" }, facts);
  const shown = [...response.headers].filter(([name]) => name.startsWith("x-")).map(([name, value]) => `${name}: ${value}`);
  const headers = shown.length ? [element("pre", {}, element("code", { textContent: shown.join("\n") }))] : [];
  const medium = content.type.split(";")[0];
  if (medium === "application/json") {
    const text = JSON.stringify(JSON.parse(await content.text()), null, 2);
    return [head, ...headers, element("pre", {}, element("code", { textContent: text }))];
  }
  if (medium.startsWith("text/") || medium === "application/x-ndjson") {
    return [head, ...headers, element("pre", {}, element("code", { textContent: await content.text() }))];
  }
  const href = URL.createObjectURL(content);
  const player = PLAYABLE.includes(medium) ? [element("audio", { controls: true, src: href })] : [];
  return [head, ...headers, ...player, element("a", { href, download: FILES[medium] ?? "answer" }, "Save it")];
}

function quoted(text) {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

try {
  show(await getJson("openapi.json"));
  if (location.hash) document.getElementById(decodeURIComponent(location.hash.slice(1)))?.setAttribute("open", "");
} catch (error) {
  if (!(error instanceof ServerError)) throw error;
  find("#error").textContent = error.message;
  find("#error").hidden = false;
}
