// A file before its job is made: its contents, and the options.

import { inWords, sentence } from "../api.js";
import { element } from "../dom.js";
import { fill } from "../settings.js";
import { groups } from "../voices.js";
import { count, duration } from "../words.js";
import { Cast } from "./cast.js";
import { ChapterChoice } from "./chapter_choice.js";

const LIST_FORMATS = { wav: "WAV", flac: "FLAC", mp3: "MP3", opus: "Opus" };
const BOOK_FORMATS = { m4b: "M4B, the audiobook format", mp3: "MP3", opus: "Opus", flac: "FLAC" };

export class Plan {
  element;
  #file;
  #preview;
  #chapters = null;
  #cast = null;

  /** `preview` is the server's; `voices` are those of `GET /voices`. */
  constructor(file, preview, voices) {
    this.#file = file;
    this.#preview = preview;
    this.element = document.querySelector("#plan-template").content.firstElementChild.cloneNode(true);
    this.#offer(voices);
    this.#describe();
    this.element.addEventListener("input", () => this.#show());
    this.element.querySelector(".all").addEventListener("click", () => this.#setAll(true));
    this.element.querySelector(".none").addEventListener("click", () => this.#setAll(false));
    this.#show();
  }

  get isBook() {
    return this.#preview.kind === "book";
  }

  get title() {
    return this.#preview.title || this.#preview.name;
  }

  /** A summary in one sentence. */
  get summary() {
    return `${this.title}: ${this.element.querySelector(".facts").textContent}`;
  }

  focus() {
    this.#find("h2").focus();
  }

  /** The request; null, with an error shown, if a choice is missing. */
  request() {
    this.#clear();
    if (this.isBook && !this.#chapters.chosen.length) {
      this.#blame("chapters", "Choose at least one chapter.");
      return null;
    }
    const body = new FormData();
    body.append("file", this.#file);
    for (const [name, value] of this.#fields()) body.append(name, value);
    return body;
  }

  /** Shows the server's error, beside the field that it names, if any. */
  complain(error) {
    this.#blame(error.field?.split(".")[0], inWords(error));
  }

  #fields() {
    const { voice, speed, format, dialogue_voice, by_chapter, subtitles, read_along, shards } = this.element.elements;
    const fields = [
      ["voice", voice.value],
      ["format", format.value],
    ];
    if (!this.isBook) return [...fields, ["shards", shards.value]].filter(([, value]) => value);
    return [
      ...fields,
      ["speed", speed.valueAsNumber === 1 ? "" : speed.value],
      ["dialogue_voice", dialogue_voice.value],
      ...this.#cast.values.map((value) => ["voice_of", value]),
      ["chapters", this.#chapters.isWhole ? "" : this.#chapters.ranges],
      ["by_chapter", by_chapter.checked && !by_chapter.disabled ? "true" : ""],
      ["subtitles", subtitles.disabled ? "" : subtitles.value],
      ["read_along", read_along.checked ? "true" : ""],
    ].filter(([, value]) => value);
  }

  #offer(voices) {
    const { voice, dialogue_voice: dialogue, format } = this.element.elements;
    voice.append(new Option(this.isBook ? "Best for the language" : "The server's own", ""), ...groups(voices));
    dialogue.append(new Option("The same voice", ""), ...groups(voices));
    const formats = this.isBook ? BOOK_FORMATS : LIST_FORMATS;
    format.append(...Object.entries(formats).map(([value, words]) => new Option(words, value)));
    for (const part of this.element.querySelectorAll(".for-books")) part.hidden = !this.isBook;
    for (const part of this.element.querySelectorAll(".for-lists")) part.hidden = this.isBook;
    this.#find(".words").textContent = this.isBook ? "Make audiobook" : "Make audio";
    if (!this.isBook) return;
    const { chapters, speakers } = this.#preview;
    this.#chapters = new ChapterChoice(this.#find(".choices"), chapters, () => this.#show());
    this.#cast = new Cast(this.#find("tbody"), speakers, voices);
    this.#find(".cast").hidden = !speakers.length;
    this.#find(".cast summary").textContent = `Voices of characters (${speakers.length} found)`;
  }

  #describe() {
    const { author, remarks, notes, omissions } = this.#preview;
    this.#find("h2").textContent = this.title;
    this.#find(".byline").textContent = author ? `by ${author}` : this.#preview.name;
    const left = Object.entries(omissions ?? {}).map(([kind, number]) => count(number, kind));
    const lines = [...(left.length ? [`Not read: ${left.join(", ")}.`] : []), ...[...remarks, ...notes].map(sentence)];
    this.#find(".remarks").replaceChildren(...lines.map((line) => element("li", { dir: "auto" }, line)));
  }

  #show() {
    const { speed, format, by_chapter: byChapter, subtitles } = this.element.elements;
    const words = `${speed.valueAsNumber.toFixed(2)}×`;
    speed.setAttribute("aria-valuetext", words);
    this.#find("output").textContent = words;
    fill(speed, 1);
    byChapter.disabled = format.value === "m4b";
    subtitles.disabled = byChapter.checked && !byChapter.disabled; // only for one file
    this.#find(".facts").textContent = this.#facts(speed.valueAsNumber);
  }

  #facts(speed) {
    if (!this.isBook) {
      return `${count(this.#preview.lines, "line")}, ${count(this.#preview.characters, "character")}`;
    }
    const { chosen, isWhole } = this.#chapters;
    const all = this.#preview.chapters.length;
    const seconds = chosen.reduce((sum, chapter) => sum + chapter.seconds, 0);
    const chapters = isWhole ? count(all, "chapter") : `${chosen.length} of ${count(all, "chapter")}`;
    return chosen.length ? `${chapters}, about ${duration(seconds / speed)}` : chapters;
  }

  #setAll(checked) {
    this.#chapters.setAll(checked);
    this.#show();
  }

  #blame(field, words) {
    this.#clear();
    const part = field && this.element.querySelector(`[data-field="${CSS.escape(field)}"]:not([hidden])`);
    const box = element("p", { className: "error", role: "alert" }, words);
    if (!part) {
      this.#find(".make").before(box);
      return;
    }
    part.append(box);
    if (part.matches("details")) part.open = true;
    const control = part.querySelector("select, input");
    control?.setAttribute("aria-invalid", "true");
    control?.focus();
  }

  #clear() {
    for (const box of this.element.querySelectorAll(".error")) box.remove();
    for (const control of this.element.querySelectorAll("[aria-invalid]")) control.removeAttribute("aria-invalid");
  }

  #find(selector) {
    return this.element.querySelector(selector);
  }
}
