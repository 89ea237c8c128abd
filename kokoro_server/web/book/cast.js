// Voices for the characters of a book.

import { element } from "../dom.js";
import { groups } from "../voices.js";
import { count } from "../words.js";

export class Cast {
  #parts; // {name, select}

  /** Fills `table` with a line for each of `speakers`: {name, lines}. */
  constructor(table, speakers, voices) {
    this.#parts = speakers.map(({ name }) => ({
      name,
      select: element("select", { ariaLabel: `Voice of ${name}` }, new Option("default voice", ""), ...groups(voices)),
    }));
    table.replaceChildren(...this.#parts.map(({ name, select }, i) => row(name, speakers[i].lines, select)));
  }

  /** Such as "Alice=af_bella", for each character with a voice. */
  get values() {
    return this.#parts.filter(({ select }) => select.value).map(({ name, select }) => `${name}=${select.value}`);
  }
}

function row(name, lines, select) {
  return element(
    "tr",
    {},
    element("th", { scope: "row", dir: "auto" }, name, element("span", { className: "small" }, count(lines, "line"))),
    element("td", {}, select),
  );
}
