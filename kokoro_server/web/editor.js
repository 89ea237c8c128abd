// The text field, and the mark on the word that is being spoken.

const HIGHLIGHT = "spoken";

/**
 * A copy of the text lies behind the text field, letter on letter, and carries the mark: a text field cannot mark its
 * own words. The copy is in the flow, so that it also makes the field as tall as its text.
 */
export class Editor {
  #field;
  #copy;
  #marked = null; // {start, end}, UTF-16 units

  constructor(field, copy) {
    this.#field = field;
    this.#copy = copy;
    field.addEventListener("input", () => this.#mirror());
    this.#mirror();
  }

  get text() {
    return this.#field.value;
  }

  focus() {
    this.#field.focus();
  }

  /** Marks a range of the text and scrolls it into view; null removes the mark. */
  mark(range) {
    if (range?.start === this.#marked?.start && range?.end === this.#marked?.end) return;
    this.#marked = range;
    CSS.highlights?.delete(HIGHLIGHT);
    if (!range) return;
    const found = this.range(range.start, range.end);
    CSS.highlights?.set(HIGHLIGHT, new Highlight(found));
    this.#reveal(found.getBoundingClientRect());
  }

  /** Where a range of the text is on the page. */
  range(start, end) {
    const found = new Range();
    found.setStart(this.#copy.firstChild, start);
    found.setEnd(this.#copy.firstChild, end);
    return found;
  }

  #mirror() {
    this.mark(null);
    // A last line that is empty has no height of its own.
    this.#copy.textContent = `${this.#field.value}\n`;
  }

  #reveal(word) {
    const scroller = this.#copy.closest(".paper");
    const view = scroller.getBoundingClientRect();
    if (word.top < view.top || word.bottom > view.bottom) {
      scroller.scrollTop += word.top - view.top - view.height / 3;
    }
  }
}

/** The words that have come from the server, and when each is spoken. */
export class Words {
  #offsets;
  #words = []; // {start, end, range}
  #index = 0;

  constructor(text) {
    this.#offsets = new Offsets(text);
  }

  add(words) {
    for (const word of words) {
      const range = { start: this.#offsets.unit(word.char_start), end: this.#offsets.unit(word.char_end) };
      this.#words.push({ start: word.start, end: word.end, range });
    }
  }

  /** The range of text that is spoken at `seconds`, or null. */
  at(seconds) {
    if (this.#words[this.#index]?.start > seconds) this.#index = 0;
    while (this.#words[this.#index + 1]?.start <= seconds) this.#index += 1;
    const word = this.#words[this.#index];
    return word && word.start <= seconds && seconds < word.end ? word.range : null;
  }
}

/** The server counts code points, the page UTF-16 units; an emoji is one of the former and two of the latter. */
export class Offsets {
  #text;
  #points = 0; // how far `#text` has been walked: in code points,
  #units = 0; // and in UTF-16 units

  constructor(text) {
    this.#text = text;
  }

  unit(points) {
    if (points < this.#points) this.#points = this.#units = 0;
    while (this.#points < points && this.#units < this.#text.length) {
      this.#units += this.#text.codePointAt(this.#units) > 0xffff ? 2 : 1;
      this.#points += 1;
    }
    return this.#units;
  }
}
