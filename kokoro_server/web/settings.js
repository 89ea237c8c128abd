// Speed, pitch and volume.

const WORDS = {
  speed: (value) => `${value.toFixed(2)}×`,
  pitch: (value) => (value ? `${signed(value)} semitone${Math.abs(value) === 1 ? "" : "s"}` : "as it is"),
  volume: (value) => (value ? `${signed(value)} dB` : "as it is"),
};

export class Settings {
  #sliders = Object.keys(WORDS).map((name) => document.querySelector(`#${name}`));

  constructor() {
    for (const slider of this.#sliders) slider.addEventListener("input", () => show(slider));
    document.querySelector("#reset").addEventListener("click", () => this.#reset());
    this.#sliders.forEach(show);
  }

  get speed() {
    return this.values.speed;
  }

  /** As fields of a request. */
  get values() {
    return Object.fromEntries(this.#sliders.map((slider) => [slider.id, slider.valueAsNumber]));
  }

  #reset() {
    for (const slider of this.#sliders) {
      slider.value = slider.defaultValue;
      show(slider);
    }
  }
}

function show(slider) {
  const words = WORDS[slider.id](slider.valueAsNumber);
  slider.setAttribute("aria-valuetext", words);
  document.querySelector(`#${slider.id}-words`).textContent = words;
  fill(slider, Number(slider.defaultValue));
}

/** Colours a slider's track from `origin` to its thumb. */
export function fill(slider, origin) {
  const [low, high] = [Number(slider.min), Number(slider.max)];
  const [from, to] = [origin, slider.valueAsNumber].sort((a, b) => a - b);
  slider.style.setProperty("--from", `${(100 * (from - low)) / (high - low)}%`);
  slider.style.setProperty("--to", `${(100 * (to - low)) / (high - low)}%`);
}

function signed(value) {
  return value > 0 ? `+${value}` : `−${-value}`;
}
