// JSON schemas of openapi.json, in words.

const LIMITS = {
  minimum: (value) => `from ${value}`,
  exclusiveMinimum: (value) => `above ${value}`,
  maximum: (value) => (value > 1e15 ? "" : `to ${value}`),
  maxLength: (value) => `at most ${value.toLocaleString()} characters`,
};

/** The schema that a reference names. */
export function resolve(document_, schema) {
  if (!schema?.$ref) return schema;
  return schema.$ref.slice(2).split("/").reduce((part, name) => part[name], document_);
}

/** The type of a value in words, such as "number from 0.25 to 4". */
export function kindOf(document_, schema) {
  const found = resolve(document_, schema) ?? {};
  const choices = (found.anyOf ?? []).filter(({ type }) => type !== "null");
  if (choices.length) return choices.map((choice) => kindOf(document_, choice)).join(", or ");
  if (found.enum) return found.enum.join(" ");
  if (found.type === "array") return `list of ${kindOf(document_, found.items)}`;
  if (schema?.$ref) return found.title;
  const limits = Object.entries(LIMITS).filter(([name]) => found[name] !== undefined);
  return [found.type ?? "anything", ...limits.map(([name, inWords]) => inWords(found[name]))].join(" ").trim();
}

/** The fields of an object, the required ones first. */
export function fields(document_, schema) {
  const required = schema.required ?? [];
  const all = Object.entries(schema.properties ?? {}).map(([name, field]) => ({
    name,
    kind: kindOf(document_, field),
    required: required.includes(name),
    description: field.description,
    default: field.default,
  }));
  return [...all.filter((field) => field.required), ...all.filter((field) => !field.required)];
}
