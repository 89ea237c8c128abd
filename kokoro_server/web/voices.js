// The choice of a voice, or of a blend of two.

import { fill } from "./settings.js";

const LANGUAGES = {
  "en-US": { name: "American English", sample: "Hello. This is how I sound when I read to you." },
  "en-GB": { name: "British English", sample: "Hello. This is how I sound when I read to you." },
  es: { name: "Spanish", sample: "Hola. Así suena mi voz cuando leo para ti." },
  "fr-FR": { name: "French", sample: "Bonjour. Voici ma voix quand je lis pour vous." },
  hi: { name: "Hindi", sample: "नमस्ते। मेरी आवाज़ ऐसी है।" },
  it: { name: "Italian", sample: "Ciao. Questa è la mia voce quando leggo per te." },
  "pt-BR": { name: "Brazilian Portuguese", sample: "Olá. É assim que soa a minha voz." },
  ja: { name: "Japanese", sample: "こんにちは。これが私の声です。" },
  zh: { name: "Mandarin Chinese", sample: "你好，这就是我的声音。" },
};

export class VoicePicker {
  #first = document.querySelector("#voice");
  #second = document.querySelector("#second-voice");
  #blending = document.querySelector("#blending");
  #share = document.querySelector("#share");
  #voices = new Map();

  constructor() {
    this.#blending.addEventListener("change", () => this.#show());
    for (const input of [this.#first, this.#second, this.#share]) {
      input.addEventListener("input", () => this.#show());
    }
  }

  /** Offers the voices of `GET /voices`. */
  offer({ voices, default: preferred }) {
    this.#voices = new Map(voices.map((voice) => [voice.name, voice]));
    for (const select of [this.#first, this.#second]) select.replaceChildren(...groups(voices));
    const first = this.#voices.has(preferred) ? preferred : preferred.match(/\w+/)?.[0]; // it may be a blend
    this.#first.value = first;
    const other = voices.find((voice) => voice.name !== first && voice.gender === "female");
    this.#second.value = (other ?? voices[0]).name;
    this.#show();
  }

  /** The value for `voice`: a name, or `af_bella(70)+af_sky(30)`. */
  get voice() {
    const [one, other] = [this.#first.value, this.#second.value];
    const share = Number(this.#share.value); // of the second, in percent
    if (!this.#blending.checked || one === other || share === 0) return one;
    return share === 100 ? other : `${one}(${100 - share})+${other}(${share})`;
  }

  get sample() {
    return LANGUAGES[this.#voices.get(this.#first.value)?.language]?.sample ?? LANGUAGES["en-US"].sample;
  }

  #show() {
    document.querySelector("#blend").hidden = !this.#blending.checked;
    const share = Number(this.#share.value);
    const [one, other] = [this.#first, this.#second].map(({ value }) => this.#voices.get(value)?.title ?? value);
    const words = `${100 - share} % ${one}, ${share} % ${other}`;
    this.#share.setAttribute("aria-valuetext", words);
    fill(this.#share, 0);
    document.querySelector("#share-words").textContent = words;
  }
}

/** The voices as choices of a `select`, by language. */
export function groups(voices) {
  return Object.entries(Object.groupBy(voices, (voice) => voice.language)).map(([language, members]) => {
    const group = document.createElement("optgroup");
    const name = LANGUAGES[language]?.name ?? language;
    group.label = members[0].installed ? name : `${name} (not installed)`; // the server's error says how to install it
    group.append(...members.map(option));
    return group;
  });
}

function option({ name, title, gender, grade }) {
  return new Option(`${title} (${gender}${grade ? `, grade ${grade}` : ""})`, name);
}
