// The chapters of an audiobook, to play those that are made.

import { element } from "../dom.js";
import { clock } from "../words.js";

const ACTIONS = { loading: "Loading", playing: "Pause", paused: "Play" };

export class ChapterList {
  element = element("details", { className: "chapters" });
  #summary = element("summary", {}, "Chapters");
  #list = element("ol", { className: "choices" });
  #rows = new Map(); // {row, button, when, title} by number
  #play;

  /** `play` gets the number of the chapter that was clicked on. */
  constructor(play) {
    this.#play = play;
    this.element.append(this.#summary, this.#list);
  }

  update({ chapters }) {
    if (!chapters) return;
    if (this.#rows.size !== chapters.length) this.#fill(chapters);
    for (const { number, done, start } of chapters) {
      const { row, button, when } = this.#rows.get(number);
      const words = start === null || start === undefined ? (done ? "ready" : "") : clock(start);
      row.classList.toggle("done", done);
      button.disabled = !done;
      if (when.textContent !== words) when.textContent = words;
    }
    const ready = chapters.filter(({ done }) => done).length;
    const words = ready === chapters.length ? "" : ` (${ready} of ${chapters.length} ready)`;
    if (this.#summary.textContent !== `Chapters${words}`) this.#summary.textContent = `Chapters${words}`;
  }

  /** Shows which chapter plays. */
  mark(number, phase) {
    for (const [each, { row, button, title }] of this.#rows) {
      const shown = each === number ? phase : "paused";
      row.ariaCurrent = each === number ? "true" : null;
      row.dataset.phase = shown;
      button.ariaLabel = `${ACTIONS[shown]} ${title}`;
    }
  }

  #fill(chapters) {
    this.#rows = new Map(chapters.map((chapter) => [chapter.number, this.#row(chapter)]));
    this.#list.replaceChildren(...[...this.#rows.values()].map(({ row }) => row));
    this.mark(null);
  }

  #row({ number, title, level }) {
    const button = element("button", { type: "button", className: "listen", disabled: true });
    button.addEventListener("click", () => this.#play(number));
    const when = element("span", { className: "length" });
    const row = element("li", {}, button, element("span", { className: "name", dir: "auto" }, title), when);
    row.style.setProperty("--level", level);
    return { row, button, when, title };
  }
}
