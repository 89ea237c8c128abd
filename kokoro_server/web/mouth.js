// A simple mouth that speaks along, by the visemes that come with the sound.

const SIL = "sil";
// Half the width of the mouth, and half its opening.
const SHAPES = {
  sil: [13, 0.8],
  PP: [12, 0.4],
  FF: [13, 2],
  TH: [13, 3.5],
  DD: [13, 4],
  kk: [13, 4.5],
  CH: [9, 5],
  SS: [14, 2.5],
  nn: [13, 3.5],
  RR: [10, 4.5],
  aa: [13, 11],
  E: [14, 7],
  I: [15, 4.5],
  O: [9, 9],
  U: [6, 6],
};

export class Mouth {
  #lips;
  #visemes = []; // {viseme, start}
  #index = 0;

  constructor(image) {
    this.image = image;
    this.#lips = image.querySelector("ellipse");
  }

  /** Comes to rest and forgets what it was to say. */
  clear() {
    this.#visemes = [];
    this.#index = 0;
    this.#show(SIL);
  }

  add(visemes) {
    this.#visemes.push(...visemes);
  }

  /** Takes the shape of what is heard at `seconds`; each shape holds until the next. */
  follow(seconds) {
    while (this.#visemes[this.#index + 1]?.start <= seconds) this.#index += 1;
    const current = this.#visemes[this.#index];
    this.#show(current?.start <= seconds ? current.viseme : SIL);
  }

  #show(viseme) {
    if (this.image.dataset.viseme === viseme) return;
    this.image.dataset.viseme = viseme;
    const [width, opening] = SHAPES[viseme];
    this.#lips.setAttribute("rx", width);
    this.#lips.setAttribute("ry", opening);
  }
}
