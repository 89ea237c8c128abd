// The choice of chapters to read.

import { element } from "../dom.js";
import { clock } from "../words.js";

export class ChapterChoice {
  #chapters; // {number, title, level, characters, seconds}
  #boxes;

  /** Fills `list`. `onChange` is called when the choice changes. */
  constructor(list, chapters, onChange) {
    this.#chapters = chapters;
    this.#boxes = chapters.map(({ number }) => element("input", { type: "checkbox", checked: true, value: number }));
    list.replaceChildren(...chapters.map((chapter, i) => row(chapter, this.#boxes[i])));
    list.addEventListener("change", onChange);
  }

  /** The chapters that are chosen. */
  get chosen() {
    return this.#chapters.filter((_, i) => this.#boxes[i].checked);
  }

  get isWhole() {
    return this.#boxes.every(({ checked }) => checked);
  }

  /** The value for `chapters`: "1-3,7". */
  get ranges() {
    const runs = [];
    for (const { number } of this.chosen) {
      const run = runs.at(-1);
      if (run?.last === number - 1) run.last = number;
      else runs.push({ first: number, last: number });
    }
    return runs.map(({ first, last }) => (first === last ? `${first}` : `${first}-${last}`)).join();
  }

  setAll(checked) {
    for (const box of this.#boxes) box.checked = checked;
  }
}

function row({ title, level, seconds }, box) {
  const made = element(
    "li",
    {},
    element(
      "label",
      {},
      box,
      element("span", { className: "name", dir: "auto" }, title),
      element("span", { className: "length" }, clock(seconds)),
    ),
  );
  made.style.setProperty("--level", level);
  return made;
}
