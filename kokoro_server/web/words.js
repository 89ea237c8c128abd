// Times, sizes and counts in words.

/** As on a player: 3:07, or 1:02:07. */
export function clock(seconds) {
  const whole = Math.floor(seconds);
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60];
  const rest = String(whole % 60).padStart(2, "0");
  return hours ? `${hours}:${String(minutes).padStart(2, "0")}:${rest}` : `${minutes}:${rest}`;
}

/** An estimated duration as people say it: 40 s, 12 min, 2 h 5 min. */
export function duration(seconds) {
  if (seconds < 59.5) return `${Math.max(1, Math.round(seconds))} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  return minutes % 60 ? `${Math.floor(minutes / 60)} h ${minutes % 60} min` : `${minutes / 60} h`;
}

export function size(bytes) {
  if (bytes < 1e6) return `${Math.max(1, Math.round(bytes / 1e3))} kB`;
  return bytes < 1e9 ? `${(bytes / 1e6).toFixed(1)} MB` : `${(bytes / 1e9).toFixed(2)} GB`;
}

/** 1 footnote, 12 footnotes, 2 tables of contents. */
export function count(number, noun) {
  return `${number.toLocaleString()} ${number === 1 ? noun : plural(noun)}`;
}

function plural(noun) {
  const [, head, rest] = /^(.*?)((?: of | instead | outside ).*)?$/.exec(noun);
  return `${head}${/[sx]$/.test(head) ? "es" : "s"}${rest ?? ""}`;
}

export function percent(fraction) {
  return `${Math.floor(100 * fraction)} %`;
}
