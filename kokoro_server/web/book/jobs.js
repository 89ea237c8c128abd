// The list of audiobooks, kept up to date.

import { getJsonQuietly, getJson, inWords } from "../api.js";
import { pause } from "../dom.js";
import { JobCard } from "./card.js";
import { deleteJob, getJob, jobEvents, resumeJob } from "./requests.js";

const STREAMS = 2; // jobs whose events are followed; browsers allow six connections to a server in all
const PERIOD = 10_000; // milliseconds between two looks at the rest
const SHORTEST = 500; // milliseconds before a connection that was lost is tried again, at first
const LONGEST = 15_000;

export class JobList {
  #section = document.querySelector("#jobs");
  #list = document.querySelector("#job-list");
  #status = document.querySelector("#book-status");
  #listening;
  #cards = new Map();
  #streams = new Map(); // the AbortController of each job that is followed
  #isShown = false;
  #timer = 0;
  #changes = 0; // jobs that were added or deleted here

  constructor(listening) {
    this.#listening = listening;
    listening.onChange = () => this.#follow();
    document.addEventListener("visibilitychange", () => {
      if (this.#isWatching) this.#refreshQuietly();
      else this.#follow();
    });
  }

  /** Follows the server while the tab is shown. */
  watch(isShown) {
    this.#isShown = isShown;
    this.#follow();
  }

  /** Fetches all jobs; `quietly`: without asking the user for a key. */
  async refresh({ quietly = false } = {}) {
    const changes = this.#changes;
    const { jobs } = await (quietly ? getJsonQuietly : getJson)("jobs");
    if (changes !== this.#changes) return; // the answer may be older than a change made here
    const known = new Set(jobs.map(({ id }) => id));
    for (const id of this.#cards.keys()) if (!known.has(id)) this.#drop(id);
    jobs.forEach((job, place) => this.#put(job, place));
    this.#section.hidden = !this.#cards.size;
    this.#follow();
  }

  async #refreshQuietly() {
    await this.refresh({ quietly: true }).catch(() => this.#follow()); // tries again after a while
  }

  /** A job that was just made here. */
  add(job) {
    this.#changes += 1;
    this.#put(job, 0).focus();
    this.#section.hidden = false;
    this.#follow();
  }

  #put(job, place) {
    const card = this.#cards.get(job.id) ?? this.#newCard(job);
    if (this.#list.children[place] !== card.element) this.#list.insertBefore(card.element, this.#list.children[place]);
    this.#update(card, job);
    return card;
  }

  #newCard(job) {
    const card = new JobCard(job, {
      load: () => this.#attempt(card, async () => this.#update(card, await getJob(card.id))),
      play: (number) => this.#listening.toggle(card, number),
      resume: () => this.#attempt(card, async () => this.#update(card, await resumeJob(card.id))),
      remove: () => this.#attempt(card, () => this.#remove(card)),
    });
    this.#cards.set(job.id, card);
    return card;
  }

  #update(card, job) {
    const before = card.job.state;
    card.update(job);
    this.#listening.refresh(card);
    if (job.state === before) return;
    if (job.state === "done") this.#status.textContent = `${card.title} is ready.`;
    if (job.state === "failed") this.#status.textContent = `${card.title} has failed.`;
    if (!job.chapters && card.isOpen) card.actions.load();
    this.#follow();
  }

  async #remove(card) {
    await deleteJob(card.id);
    this.#changes += 1;
    const next = card.element.nextElementSibling ?? card.element.previousElementSibling;
    this.#drop(card.id);
    this.#status.textContent = `${card.title} has been deleted.`;
    (next?.querySelector("h3") ?? document.querySelector("#book-file")).focus();
  }

  #drop(id) {
    const card = this.#cards.get(id);
    if (!card) return;
    this.#cards.delete(id);
    this.#listening.forget(card);
    card.element.remove();
    this.#section.hidden = !this.#cards.size;
    this.#follow();
  }

  async #attempt(card, action) {
    card.complain(null);
    try {
      await action();
    } catch (error) {
      if (error.status === 404) this.#drop(card.id);
      else card.complain(inWords(error));
    }
  }

  /** Whether the page is in use. A page in the background leaves the connections to other pages. */
  get #isWatching() {
    return (this.#isShown && !document.hidden) || this.#listening.isActive;
  }

  #follow() {
    clearTimeout(this.#timer);
    const active = this.#isWatching ? [...this.#cards.values()].filter((card) => card.isActive) : [];
    const followed = new Set(active.sort(byTurn).slice(0, STREAMS).map(({ id }) => id));
    for (const [id, control] of this.#streams) {
      if (followed.has(id)) continue;
      this.#streams.delete(id);
      control.abort();
    }
    for (const id of followed) {
      if (this.#streams.has(id)) continue;
      const control = new AbortController();
      this.#streams.set(id, control);
      this.#keepUp(this.#cards.get(id), control.signal);
    }
    if (active.length) this.#timer = setTimeout(() => this.#refreshQuietly(), PERIOD);
  }

  /** Follows the events of a job until it ends; a lost connection is opened again. */
  async #keepUp(card, signal) {
    let delay = SHORTEST;
    while (!signal.aborted) {
      try {
        for await (const { event, data } of jobEvents(card.id, signal)) {
          delay = SHORTEST;
          card.isLost = false;
          if (event === "deleted") return this.#drop(card.id);
          if (event === "job") this.#update(card, data);
        }
      } catch (error) {
        if (signal.aborted) return undefined;
        if (error.status === 404) return this.#drop(card.id);
      }
      if (!card.isActive || signal.aborted) return undefined;
      card.isLost = true;
      await pause(delay);
      delay = Math.min(2 * delay, LONGEST);
    }
    return undefined;
  }
}

/** Running jobs before waiting ones, older ones first. */
function byTurn({ job: one }, { job: other }) {
  const rank = ({ state }) => (state === "running" ? 0 : 1);
  return rank(one) - rank(other) || one.created.localeCompare(other.created);
}
