// Plays the chapters of an audiobook in order, also while later ones are still being made.

import { inWords } from "../api.js";
import { getFile, getFileQuietly } from "./requests.js";

const AHEAD = 30; // seconds before its end, the next chapter is fetched: the server encodes it when it is asked for
const UNPLAYABLE = "This browser cannot play the chapter.";
const NOT_MADE = "This chapter has not been made.";

export class Listening {
  onChange = () => {};

  #bar = document.querySelector("#listening");
  #audio = this.#bar.querySelector("audio");
  #title = this.#bar.querySelector(".title");
  #state = this.#bar.querySelector(".state");
  #card = null;
  #number = null; // of the chapter
  #phase = "paused"; // or "loading", "playing", "waiting" for a chapter that is being made
  #ahead = null; // the next chapter: its path, and a promise of its content
  #control = new AbortController();

  constructor() {
    this.#audio.addEventListener("play", () => this.#enter("playing"));
    this.#audio.addEventListener("pause", () => this.#enter("paused"));
    this.#audio.addEventListener("ended", () => this.#step(1));
    this.#audio.addEventListener("timeupdate", () => this.#fetchAhead());
    this.#audio.addEventListener("error", () => this.#enter("paused", UNPLAYABLE));
    this.#bar.querySelector(".before").addEventListener("click", () => this.#step(-1));
    this.#bar.querySelector(".next").addEventListener("click", () => this.#step(1));
    this.#bar.querySelector(".close").addEventListener("click", () => this.#close());
  }

  /** Whether a chapter plays, or will play without a click. */
  get isActive() {
    return this.#phase !== "paused";
  }

  /** Plays a chapter, or pauses it if it plays. */
  toggle(card, number) {
    if (card !== this.#card || number !== this.#number || !this.#audio.src) this.#play(card, number);
    else if (this.#audio.paused) this.#resume();
    else this.#audio.pause();
  }

  /** A job has changed: the awaited chapter may be ready. */
  refresh(card) {
    if (card !== this.#card) return;
    card.mark(this.#number, this.#phase === "waiting" ? "loading" : this.#phase);
    if (this.#phase !== "waiting") return;
    if (this.#chapter?.done) this.#play(card, this.#number);
    else if (!card.isActive) this.#enter("paused", NOT_MADE);
  }

  /** A job is gone. */
  forget(card) {
    if (card === this.#card) this.#close();
  }

  get #chapters() {
    return this.#card?.job.chapters ?? [];
  }

  get #chapter() {
    return this.#chapters.find(({ number }) => number === this.#number);
  }

  async #play(card, number) {
    this.#silence();
    this.#choose(card, number);
    this.#enter("loading", "Loading…");
    this.#control = new AbortController();
    const { signal } = this.#control;
    const path = pathOf(card, number);
    const ahead = this.#ahead?.path === path ? this.#ahead.content : null;
    this.#ahead = null;
    try {
      const content = (await ahead) ?? (await getFile(path, signal));
      if (signal.aborted) return;
      this.#audio.src = URL.createObjectURL(content);
      await this.#resume();
    } catch (error) {
      if (!signal.aborted) this.#enter("paused", inWords(error));
    }
  }

  #fetchAhead() {
    const left = this.#audio.duration - this.#audio.currentTime;
    const next = this.#chapters[this.#chapters.indexOf(this.#chapter) + 1];
    if (!next?.done || !(left < AHEAD)) return;
    const path = pathOf(this.#card, next.number);
    if (this.#ahead?.path === path) return;
    this.#ahead = { path, content: getFileQuietly(path).catch(() => null) }; // it is fetched again when it is due
  }

  async #resume() {
    await this.#audio.play().catch(({ name }) => {
      if (name === "NotSupportedError") this.#enter("paused", UNPLAYABLE);
      if (name === "NotAllowedError") this.#enter("paused"); // the browser wants a click on the controls
    });
  }

  #step(by) {
    const place = this.#chapters.findIndex(({ number }) => number === this.#number) + by;
    const chapter = this.#chapters[place];
    if (!chapter) return;
    if (chapter.done) {
      this.#play(this.#card, chapter.number);
      return;
    }
    this.#silence();
    this.#choose(this.#card, chapter.number);
    if (this.#card.isActive) this.#enter("waiting", "Being made. It is played as soon as it is ready.");
    else this.#enter("paused", NOT_MADE);
  }

  #choose(card, number) {
    if (card !== this.#card) this.#card?.mark(null);
    this.#card = card;
    this.#number = number;
    this.#bar.hidden = false;
    this.#title.textContent = this.#chapter?.title ?? `${number}`;
    const place = this.#chapters.indexOf(this.#chapter);
    this.#bar.querySelector(".before").disabled = place <= 0;
    this.#bar.querySelector(".next").disabled = place === this.#chapters.length - 1;
  }

  #enter(phase, words = this.#card?.title) {
    if (!this.#card) return;
    this.#phase = phase;
    this.#state.textContent = words;
    this.#card.mark(this.#number, phase === "waiting" ? "loading" : phase);
    this.onChange();
  }

  #silence() {
    this.#control.abort();
    if (!this.#audio.src) return;
    URL.revokeObjectURL(this.#audio.src);
    this.#audio.removeAttribute("src");
    this.#audio.load(); // stops it and fires its events
  }

  #close() {
    this.#silence();
    this.#ahead = null;
    this.#enter("paused");
    this.#card?.mark(null);
    this.#card = this.#number = null;
    this.#bar.hidden = true;
  }
}

function pathOf(card, number) {
  return `jobs/${card.id}/chapters/${number}?format=mp3`;
}
