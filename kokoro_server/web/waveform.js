// The waveform of the sound as it arrives, and how much has been played.

import { colour, onRedraw, sheet } from "./canvas.js";
import { SAMPLE_RATE } from "./player.js";

const PER_PEAK = SAMPLE_RATE / 50; // samples behind one stored peak
const BAR = 3; // CSS pixels
const GAP = 2;
const REST = 0.03; // height of a bar without sound yet

export class Waveform {
  #canvas;
  #peaks = [];
  #pending = { peak: 0, samples: 0 };
  #span = 0; // peaks that fill the width
  #heard = 0; // seconds

  constructor(canvas) {
    this.#canvas = canvas;
    onRedraw(canvas, () => this.draw());
  }

  /** Starts again; `seconds` is an estimate of the sound's length. */
  clear(seconds = 0) {
    this.#peaks = [];
    this.#pending = { peak: 0, samples: 0 };
    this.#span = (seconds * SAMPLE_RATE) / PER_PEAK;
    this.draw(0);
  }

  add(samples) {
    const pending = this.#pending;
    for (const sample of samples) {
      pending.peak = Math.max(pending.peak, Math.abs(sample));
      pending.samples += 1;
      if (pending.samples === PER_PEAK) {
        this.#peaks.push(pending.peak);
        Object.assign(pending, { peak: 0, samples: 0 });
      }
    }
  }

  /** Nothing more will come: the sound fills the width. */
  finish() {
    this.#span = this.#peaks.length;
    this.draw();
  }

  draw(heard = this.#heard) {
    this.#heard = heard;
    const { pen, width, height } = sheet(this.#canvas);
    const bars = Math.floor((width + GAP) / (BAR + GAP));
    const perBar = Math.max(this.#span, this.#peaks.length, 1) / bars;
    const playhead = (heard * SAMPLE_RATE) / PER_PEAK / perBar;
    const [said, unsaid, empty] = ["accent", "wave", "line"].map((name) => colour(this.#canvas, name));
    for (let bar = 0; bar < bars; bar += 1) {
      const loud = this.#loudest(bar * perBar, (bar + 1) * perBar);
      const tall = Math.max(Math.sqrt(loud) || 0, REST) * height;
      pen.fillStyle = loud === null ? empty : bar < playhead ? said : unsaid;
      pen.beginPath();
      pen.roundRect(bar * (BAR + GAP), (height - tall) / 2, BAR, tall, BAR / 2);
      pen.fill();
    }
  }

  /** The highest peak in a range; null if it has none yet. */
  #loudest(from, to) {
    const first = Math.floor(from);
    if (first >= this.#peaks.length) return null;
    let loudest = 0;
    for (let i = first; i < Math.min(Math.max(to, first + 1), this.#peaks.length); i += 1) {
      loudest = Math.max(loudest, this.#peaks[i]);
    }
    return loudest;
  }
}
