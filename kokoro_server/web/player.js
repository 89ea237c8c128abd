// Plays sound that arrives in stretches as one sound without seams.

export const SAMPLE_RATE = 24_000; // Hz, as the server sends it
const LEAD = SAMPLE_RATE / 20; // samples between scheduling the first stretch and hearing it

/**
 * One utterance. Stretches are scheduled end to end on the audio clock, in whole samples; the context runs at their
 * own rate, so that no stretch is resampled by itself and no seam can be heard.
 */
class Playback {
  scheduled = 0; // stretches
  played = 0;
  gaps = 0; // times when the next stretch came too late
  samples = 0; // received so far

  #context;
  #stretches = []; // {start, from, length, source}; in samples, `start` on the clock, `from` in the utterance
  #whole = false;
  #ended = Promise.withResolvers();

  constructor(context) {
    this.#context = context;
  }

  /** Resolves when all has been heard, or when it was stopped. */
  get ended() {
    return this.#ended.promise;
  }

  get seconds() {
    return this.samples / SAMPLE_RATE;
  }

  /** Seconds of the utterance that have been heard. */
  get position() {
    const delay = this.#context.outputLatency || 0;
    const now = (this.#context.currentTime - delay) * SAMPLE_RATE;
    const current = this.#stretches.findLast((stretch) => stretch.start <= now);
    if (!current) return 0;
    return (current.from + Math.min(now - current.start, current.length)) / SAMPLE_RATE;
  }

  /** Whether everything that has arrived has been heard, and more is to come. */
  get starved() {
    return !this.#whole && this.played === this.scheduled;
  }

  add(samples) {
    if (!samples.length) return;
    const start = this.#next();
    const source = this.#context.createBufferSource();
    source.buffer = this.#context.createBuffer(1, samples.length, SAMPLE_RATE);
    source.buffer.copyToChannel(samples, 0);
    source.connect(this.#context.destination);
    source.start(start / SAMPLE_RATE);
    const stretch = { start, from: this.samples, length: samples.length, source };
    source.onended = () => this.#onEnded(stretch);
    this.#stretches.push(stretch);
    this.samples += samples.length;
    this.scheduled += 1;
  }

  /** Nothing more will be added. */
  finish() {
    this.#whole = true;
    this.#settle();
  }

  stop() {
    this.#whole = true;
    for (const { source } of this.#stretches) source?.stop();
    this.#ended.resolve();
  }

  #next() {
    const now = Math.ceil(this.#context.currentTime * SAMPLE_RATE);
    const last = this.#stretches.at(-1);
    if (!last) return now + LEAD;
    const end = last.start + last.length;
    if (end >= now) return end;
    this.gaps += 1;
    return now + LEAD;
  }

  #onEnded(stretch) {
    stretch.source = null; // and its samples with it
    this.played += 1;
    this.#settle();
  }

  #settle() {
    if (this.#whole && this.played === this.scheduled) this.#ended.resolve();
  }
}

/** The way to the loudspeaker. Call `begin` from a click or a key press: browsers allow sound only then. */
export class Player {
  #context = null;

  begin() {
    this.#context ??= new AudioContext({ sampleRate: SAMPLE_RATE });
    this.#context.resume();
    return new Playback(this.#context);
  }

  rest() {
    this.#context?.suspend();
  }
}
