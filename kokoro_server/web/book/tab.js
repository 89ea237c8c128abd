// The Book tab: a file in, an audiobook out.

import { inWords } from "../api.js";
import { percent } from "../words.js";
import { JobList } from "./jobs.js";
import { Listening } from "./listening.js";
import { Plan } from "./plan.js";
import { createJob, preview } from "./requests.js";

const find = (selector) => document.querySelector(selector);

export class BookTab {
  #offerVoices;
  #voices = [];
  #plan = null;
  #control = new AbortController(); // of the upload
  #jobs = new JobList(new Listening());

  /** `offerVoices` fetches the voices, which arrive through `offer`. */
  constructor(offerVoices) {
    this.#offerVoices = offerVoices;
    const input = find("#book-file");
    input.addEventListener("change", () => {
      if (input.files.length) this.#take([...input.files]);
      input.value = ""; // or the same file could not be chosen again
    });
    find("#sending button").addEventListener("click", () => this.#cancel());
    find("#jobs-again").addEventListener("click", () => this.#refresh());
    for (const kind of ["dragenter", "dragover", "dragleave", "drop"]) {
      addEventListener(kind, (event) => this.#onDrag(event));
    }
  }

  offer(voices) {
    this.#voices = voices;
  }

  show(isShown) {
    this.#jobs.watch(isShown);
    if (isShown) this.#refresh();
  }

  async #refresh() {
    find("#jobs-trouble").hidden = true;
    try {
      await this.#jobs.refresh();
      find("#book").hidden = false;
    } catch (error) {
      find("#jobs-trouble .error").textContent = inWords(error);
      find("#jobs-trouble").hidden = false;
      find("#book").hidden = error.status === 403; // the server keeps no jobs
    }
  }

  /** A file may be dropped anywhere on the page while the tab is shown. */
  #onDrag(event) {
    if (find("#panel-book").hidden || !event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    const leaves = event.type === "drop" || (event.type === "dragleave" && !event.relatedTarget);
    find(".drop").classList.toggle("over", !leaves);
    if (event.type !== "drop" || find("#book").hidden) return;
    const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry?.());
    if (entries.some((entry) => entry?.isDirectory)) this.#complain("That is a folder. Drop the file that is in it.");
    else this.#take([...event.dataTransfer.files]);
  }

  async #take(files) {
    this.#complain(null);
    if (files.length > 1) {
      this.#complain("Drop one file at a time.");
      return;
    }
    this.#close();
    const [file] = files;
    const found = await this.#send(file, (options) => preview(file, options), "Reading").catch((error) => {
      this.#complain(inWords(error));
    });
    if (!found) return;
    if (!this.#voices.length) await this.#offerVoices();
    this.#open(new Plan(file, found, this.#voices));
  }

  #open(plan) {
    this.#plan = plan;
    find("#plan").replaceChildren(plan.element);
    find(".drop").classList.add("small");
    plan.element.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#make(plan);
    });
    plan.element.querySelector(".discard").addEventListener("click", () => this.#cancel());
    this.#announce(plan.summary);
    plan.focus();
  }

  async #make(plan) {
    const body = plan.request();
    if (!body) return;
    const button = plan.element.querySelector(".make");
    button.disabled = true;
    try {
      const job = await this.#send(body.get("file"), (options) => createJob(body, options), "Starting");
      if (!job) return;
      this.#close();
      this.#announce(`${plan.title} is being made.`);
      this.#jobs.add(job);
    } catch (error) {
      plan.complain(error);
    } finally {
      button.disabled = false;
    }
  }

  /** The answer of `request`, or null if it was cancelled. Shows meanwhile how much has been sent. */
  async #send(file, request, then) {
    this.#control.abort();
    this.#control = new AbortController();
    const { signal } = this.#control;
    const onUpload = (share) => this.#showSending(file, share, then);
    onUpload(0);
    try {
      return await request({ signal, onUpload });
    } catch (error) {
      if (signal.aborted) return null;
      throw error;
    } finally {
      if (!signal.aborted) find("#sending").hidden = true;
    }
  }

  #showSending(file, share, then) {
    find("#sending").hidden = false;
    find("#sending progress").value = share;
    find("#sending span").textContent =
      share < 1 ? `Sending ${file.name}: ${percent(share)}` : `${then} ${file.name}…`;
  }

  #cancel() {
    this.#control.abort();
    find("#sending").hidden = true;
    this.#close();
    find("#book-file").focus();
  }

  #close() {
    this.#plan?.element.remove();
    this.#plan = null;
    find(".drop").classList.remove("small");
  }

  #complain(words) {
    find("#book-error").textContent = words ?? "";
    find("#book-error").hidden = !words;
  }

  #announce(words) {
    find("#book-status").textContent = words;
  }
}
