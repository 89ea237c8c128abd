// Listens in on a page from outside its own code: which sounds it schedules, and which words it marks, in order.

window.ear = { sounds: [], stopped: 0, words: [] };

// The clock does not wait for the page: what counts is what the page has read.
const clock = Object.getOwnPropertyDescriptor(BaseAudioContext.prototype, "currentTime");
let read = (context) => clock.get.call(context);
let now = 0;
Object.defineProperty(BaseAudioContext.prototype, "currentTime", {
  get() {
    now = read(this);
    return now;
  },
});

const { start, stop } = AudioBufferSourceNode.prototype;
AudioBufferSourceNode.prototype.start = function (when) {
  const rate = this.buffer.sampleRate;
  window.ear.sounds.push({ when, samples: this.buffer.length, rate, now });
  window.ear.contextRate = this.context.sampleRate;
  return start.call(this, when);
};
AudioBufferSourceNode.prototype.stop = function (...when) {
  window.ear.stopped += 1;
  return stop.apply(this, when);
};

const { set } = HighlightRegistry.prototype;
HighlightRegistry.prototype.set = function (name, highlight) {
  window.ear.words.push(...[...highlight].map((range) => range.toString()));
  return set.call(this, name, highlight);
};

/**
 * From now on nothing is heard, and the clock goes on by `step` seconds with each frame that is drawn: on a slow machine
 * the page sees no less of a sound than on a fast one.
 */
window.ear.countFrames = (step) => {
  const ends = new Map(); // of the sounds that play
  let time = 0;
  read = () => time;
  Object.defineProperty(AudioContext.prototype, "outputLatency", { value: 0 });
  AudioBufferSourceNode.prototype.start = function (when) {
    ends.set(this, when + this.buffer.duration);
  };
  AudioBufferSourceNode.prototype.stop = function () {
    ends.delete(this);
  };
  const draw = () => {
    time += step;
    for (const [source, end] of ends) {
      if (end > time) continue;
      ends.delete(source);
      source.dispatchEvent(new Event("ended"));
    }
    requestAnimationFrame(draw);
  };
  draw();
};
