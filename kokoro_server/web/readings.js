// Text that is not read as it is written: underlined, with its words at the pointer or the cursor.

import { postQuietly } from "./api.js";
import { Offsets } from "./editor.js";

const HIGHLIGHT = "read";
const DELAY = 700; // milliseconds after the last change before the server is asked
const LONGEST = 20_000; // characters; a longer text is not checked
const GAP = 6; // pixels between a span and its bubble

export class Readings {
  #editor;
  #field;
  #bubble;
  #request;
  #spans = []; // {range, words, rule}
  #timer = 0;
  #control = new AbortController();

  /** `request` returns the body of a request for a text, or null while the voices are not known. */
  constructor(editor, field, bubble, request) {
    this.#editor = editor;
    this.#field = field;
    this.#bubble = bubble;
    this.#request = request;
    field.addEventListener("input", () => this.refresh());
    field.addEventListener("pointermove", (event) => this.#show(this.#at(event.clientX, event.clientY)));
    field.addEventListener("pointerleave", () => this.#show(null));
    field.addEventListener("blur", () => this.#show(null));
    document.addEventListener("selectionchange", () => this.#showAtCursor());
  }

  /** How many spans are underlined. */
  get count() {
    return this.#spans.length;
  }

  /** Checks the text again soon. */
  refresh() {
    clearTimeout(this.#timer);
    this.#control.abort();
    this.#mark([]);
    this.#timer = setTimeout(() => this.#ask(), DELAY);
  }

  async #ask() {
    const text = this.#editor.text;
    const body = text.trim() && text.length <= LONGEST ? this.#request(text) : null;
    if (!body) return;
    this.#control = new AbortController();
    const { signal } = this.#control;
    // A text that cannot be read shows its error when it is spoken.
    const answer = await postQuietly("text/reading", body, signal).catch(() => null);
    if (answer && !signal.aborted) this.#mark(this.#found(answer.readings, text));
  }

  #found(readings, text) {
    const offsets = new Offsets(text);
    return readings.map(({ start, end, words, rule }) => {
      const range = this.#editor.range(offsets.unit(start), offsets.unit(end));
      return { range, start: offsets.unit(start), end: offsets.unit(end), words, rule };
    });
  }

  #mark(spans) {
    this.#spans = spans;
    this.#show(null);
    CSS.highlights?.delete(HIGHLIGHT);
    if (spans.length) CSS.highlights?.set(HIGHLIGHT, new Highlight(...spans.map(({ range }) => range)));
  }

  #at(x, y) {
    const inside = ({ left, right, top, bottom }) => left <= x && x <= right && top <= y && y <= bottom;
    return this.#spans.find(({ range }) => [...range.getClientRects()].some(inside)) ?? null;
  }

  #showAtCursor() {
    if (document.activeElement !== this.#field) return;
    const { selectionStart, selectionEnd } = this.#field;
    const touched = ({ start, end }) => start <= selectionStart && selectionEnd <= end;
    this.#show(selectionStart === selectionEnd ? (this.#spans.find(touched) ?? null) : null);
  }

  #show(span) {
    this.#bubble.hidden = !span;
    if (!span) return;
    this.#bubble.querySelector(".words").textContent = span.words || "not said";
    this.#bubble.querySelector(".rule").textContent = span.rule;
    const { left, bottom } = span.range.getBoundingClientRect();
    const around = this.#bubble.offsetParent.getBoundingClientRect();
    const room = around.width - this.#bubble.offsetWidth - GAP;
    this.#bubble.style.left = `${Math.max(GAP, Math.min(left - around.left, room))}px`;
    this.#bubble.style.top = `${bottom - around.top + GAP}px`;
  }
}
