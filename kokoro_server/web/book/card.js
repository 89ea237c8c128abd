// One audiobook: its progress, its chapters, its files.

import { inWords, sentence } from "../api.js";
import { element, save } from "../dom.js";
import { apiKey } from "../keys.js";
import { clock, count, duration, percent, size } from "../words.js";
import { ChapterList } from "./chapter_list.js";
import { getFile } from "./requests.js";

const PHASES = { speaking: "Speaking", levelling: "Evening out the loudness", writing: "Writing the files" };
const LOST = "The connection to the server is lost. It is tried again.";

export class JobCard {
  element;
  actions;
  job;
  #title = element("h3", { dir: "auto", tabIndex: -1 });
  #byline = element("p", { className: "byline", dir: "auto" });
  #state = element("p", { className: "state" });
  #progress = element("progress", { max: 1, ariaLabel: "Progress" });
  #lost = element("p", { className: "small", hidden: true }, LOST);
  #error = element("p", { className: "error", hidden: true });
  #trouble = element("p", { className: "error", role: "alert", hidden: true });
  #files = element("ul", { className: "files", ariaLabel: "Files" });
  #chapters;
  #remarks = element("ul", { className: "remarks" });
  #resume = element("button", { type: "button" }, "Resume");
  #remove = element("button", { type: "button", className: "quiet" }, "Delete");
  #buttons = element("div", { className: "row" }, this.#resume, this.#remove);
  #confirm = element("div", { className: "row confirm", role: "group", hidden: true });

  /** `actions`: load all of the job, play a chapter, resume, remove. */
  constructor(job, actions) {
    this.job = job;
    this.actions = actions;
    this.#chapters = new ChapterList((number) => actions.play(number));
    this.#chapters.element.addEventListener("toggle", () => {
      if (this.isOpen && !this.job.chapters) actions.load();
    });
    this.#resume.addEventListener("click", () => this.#whileBusy(this.#resume, actions.resume));
    this.#remove.addEventListener("click", () => this.#ask(true));
    this.#fillConfirm();
    this.element = element(
      "article",
      { className: "job" },
      element("div", { className: "heading" }, this.#title, this.#byline),
      ...[this.#state, this.#progress, this.#lost, this.#error, this.#files, this.#chapters.element, this.#remarks],
      ...[this.#trouble, this.#buttons, this.#confirm],
    );
    this.#chapters.element.open = this.isActive;
    this.update(job);
  }

  get id() {
    return this.job.id;
  }

  get title() {
    return this.job.title || this.job.name;
  }

  /** Whether the job is unfinished. */
  get isActive() {
    return this.job.state === "queued" || this.job.state === "running";
  }

  get isOpen() {
    return this.#chapters.element.open;
  }

  set isLost(isLost) {
    this.#lost.hidden = !isLost;
  }

  /** `job` is the server's answer; a list of jobs leaves out the chapters. */
  update(job) {
    this.job = { ...this.job, ...job, chapters: job.chapters ?? this.job.chapters };
    const { state, author, name, progress, error, result } = this.job;
    this.element.dataset.state = state;
    this.element.setAttribute("aria-label", this.title);
    write(this.#title, this.title);
    write(this.#byline, author ? `by ${author}` : name);
    write(this.#state, inShort(this.job));
    this.#progress.hidden = !this.isActive;
    this.#progress.value = progress?.fraction ?? 0;
    if (!this.isActive) this.isLost = false;
    write(this.#error, error ? sentence(error.message) : "");
    this.#error.hidden = !error;
    this.#resume.hidden = state !== "failed";
    this.#showFiles(result?.files ?? []);
    this.#chapters.element.hidden = this.job.kind !== "book";
    this.#chapters.update(this.job);
    this.#showRemarks();
  }

  /** Shows the error of an action; null removes it. */
  complain(words) {
    this.#trouble.textContent = words ?? "";
    this.#trouble.hidden = !words;
  }

  /** Shows which chapter plays: `phase` is "loading", "playing" or "paused". */
  mark(number, phase) {
    this.#chapters.mark(number, phase);
  }

  focus() {
    this.#title.focus();
  }

  #showRemarks() {
    const lines = [...this.job.remarks, ...this.job.notes].map(sentence);
    const shown = [...this.#remarks.children].map(({ textContent }) => textContent);
    if (lines.join("\n") === shown.join("\n")) return;
    this.#remarks.replaceChildren(...lines.map((line) => element("li", { dir: "auto" }, line)));
  }

  #showFiles(files) {
    if (this.#files.childElementCount === files.length) return;
    this.#files.replaceChildren(...files.map((file) => element("li", {}, this.#link(file))));
  }

  #link(file) {
    const href = file.url.replace(/^\//, ""); // relative to this page
    const link = element("a", { href, download: file.name, className: "file" });
    link.append(element("span", { dir: "auto" }, file.name), element("span", { className: "small" }, size(file.bytes)));
    link.addEventListener("click", (event) => {
      if (!apiKey()) return;
      event.preventDefault(); // a link cannot send the key
      this.#download(file, href, link);
    });
    return link;
  }

  async #download(file, href, link) {
    if (link.ariaBusy === "true") return;
    this.complain(null);
    link.ariaBusy = "true";
    try {
      save(file.name, await getFile(href));
    } catch (error) {
      this.complain(inWords(error));
    } finally {
      link.ariaBusy = "false";
    }
  }

  #fillConfirm() {
    const keep = element("button", { type: "button" }, "Keep it");
    const remove = element("button", { type: "button", className: "danger" }, "Delete it");
    keep.addEventListener("click", () => this.#ask(false));
    remove.addEventListener("click", () => this.#whileBusy(remove, this.actions.remove));
    this.#confirm.append(element("span", {}), remove, keep);
    this.#confirm.addEventListener("keydown", ({ key }) => {
      if (key === "Escape") this.#ask(false);
    });
  }

  /** Shows or hides the question whether to delete it. */
  #ask(isAsked) {
    const words = this.isActive ? "Stop and delete it?" : "Delete it with its files?";
    this.#confirm.firstElementChild.textContent = words;
    this.#confirm.ariaLabel = words;
    this.#confirm.hidden = !isAsked;
    this.#buttons.hidden = isAsked;
    (isAsked ? this.#confirm.lastElementChild : this.#remove).focus();
  }

  async #whileBusy(button, action) {
    button.disabled = true;
    await action();
    button.disabled = false;
  }
}

/** Its state in one line. */
function inShort({ state, kind, progress, result, expires }) {
  const lines = kind === "list" && progress.lines ? [linesInWords(progress)] : [];
  if (state === "queued") return "Waiting for its turn";
  if (state === "failed") return ["Failed", ...lines].join(" · ");
  if (state === "done") {
    const until = expires ? [`kept until ${new Date(expires).toLocaleDateString()}`] : [];
    return ["Ready", clock(result?.seconds ?? 0), ...lines, ...until].join(" · ");
  }
  const left = progress.seconds_left === null ? [] : [`about ${duration(progress.seconds_left)} left`];
  return [PHASES[progress.phase] ?? "Starting", percent(progress.fraction), ...lines, ...left].join(" · ");
}

function linesInWords({ lines, done, failed }) {
  const words = `${done.toLocaleString()} of ${count(lines, "line")}`;
  return failed ? `${words}, ${failed.toLocaleString()} failed` : words;
}

function write(part, words) {
  if (part.textContent !== words) part.textContent = words;
}
