"""The tables of docs/performance.md about what is heard, from the results of `listening_bench`."""

from __future__ import annotations

from typing import Any

from benchmarks.tables import percent, table

Found = dict[str, Any]

MARKS = {"comma": "comma", "semicolon": "; : —", "sentence": "end of a sentence", "paragraph": "paragraph"}
WAYS = ("whole", "streamed")
VOICES_IN_A_ROW = 3


def listening(found: Found, link: str) -> str:
    """What is in the file; parts that were not measured have no table."""
    pace = found.get("server", {}).get("pace") or {}
    place = f"{found['machine']['cpu']}, {found['machine']['cores']} cores"
    if "real_time_factor" in pace:
        place += f"; streams cut for a real-time factor of {pace['real_time_factor']:g}"
    parts = [SECTIONS[part](found[part], link) for part in SECTIONS if part in found]
    return "\n".join(
        [f"## What is heard\n\nOf the server over HTTP, with the real model on a CPU ({place}).\n", *parts]
    )


def prose(found: Found, link: str) -> str:
    lines = [
        [
            f"{voice}, {way}",
            f"{row['word_errors']} of {row['words']} ({percent(row['word_error_rate'], 1)})",
            f"{row['pieces'] - 1}",
            f"{row['clicks']['at_joins']}",
            f"{row['clicks']['inserted_and_found']} of {row['clicks']['inserted']}",
        ]
        for voice, ways in found["voices"].items()
        for way, row in ways.items()
    ]
    head = ["", "words that Whisper hears wrongly", "joins", "clicks at them", "clicks put there that are found"]
    steps = found["level_steps_db"]
    rows = [[name, *(range_of(steps[way], mark, place) for way, place in PLACES)] for mark, name in MARKS.items()]
    return (
        f"{found['words']} words of *Alice in Wonderland*:\n\n{table(head, lines, link)}\n"
        "How much louder or softer speech goes on after a pause, in dB: the median, and the most, of three voices:\n\n"
        f"{table(['', *PLACE_NAMES], rows, link)}{same_places(found)}"
    )


def same_places(found: Found) -> str:
    joins, inside = found["joins_of_streams_db"], found["the_same_places_inside_clips_db"]
    return (
        f"\nAt the {joins['count']} places that are joins in the streams and inside pieces in the clips, the median is "
        f"{joins['median']:.1f} dB at the joins and {inside['median']:.1f} dB inside.\n"
    )


def pauses(found: Found, link: str) -> str:
    heard, promised, asked = found["heard_s"], found["promised_s"], found["asked_for_s"]
    rows = [
        [name, f"{promised[mark]:.2f}", *(range_of(heard[way], mark, place) for way, place in PLACES)]
        for mark, name in MARKS.items()
    ]
    lines = [
        [
            name,
            f"{asked[mark]:.2f}",
            *(", ".join(joins_of(found["texts"], mark, way, label)) for way in WAYS for label in ("usual", "set")),
        ]
        for mark, name in MARKS.items()
    ]
    head = ["", "asked for", *(f"{way}: {label}" for way in WAYS for label in ("without `pauses`", "with them"))]
    return (
        "Silence at marks in that prose, in seconds (frames of 5 ms, 45 dB or more below the loudest): the median and "
        "the most. The promised lengths are for joins; inside a piece the model pauses as it likes:\n\n"
        f"{table(['', 'promised', *PLACE_NAMES], rows, link)}\n"
        f"What `pauses` changes: medians at joins, in seconds, of a short text and of a long sentence:\n\n"
        f"{table(head, lines, link)}"
    )


PLACES = tuple((way, place) for way in WAYS for place in ("join", "inside"))
PLACE_NAMES = [f"{way}: {'at joins' if place == 'join' else 'inside pieces'}" for way, place in PLACES]


def range_of(figures: Found, mark: str, place: str) -> str:
    one = figures.get(f"{mark}, {place}")
    return f"{one['median']:.2f}, {one['most']:.2f} ({one['count']})" if one else ""


def joins_of(texts: Found, mark: str, way: str, label: str) -> list[str]:
    found = [texts[f"{name}, {way}, {label}"].get(f"{mark}, join") for name in ("short", "long")]
    return [f"{one['median']:.2f}" for one in found if one]


def speeds(found: Found, link: str) -> str:
    voices = found["voices"]
    lines = [
        [
            speed,
            *(
                f"{percent(row['word_error_rate'], 1)}, {row['rate']:.2f}"
                for row in (v[speed] for v in voices.values())
            ),
        ]
        for speed in next(iter(voices.values()))
    ]
    words = next(iter(next(iter(voices.values())).values()))["words"]
    intro = f"Other speeds, {words} words: those that Whisper hears wrongly, and the speed that is heard:"
    return f"{intro}\n\n{table(['speed', *voices], lines, link)}"


def levels(found: Found, link: str) -> str:
    named = [f"{voice}: {row['own']['lufs']:.1f} → {row['even']['lufs']:.1f}" for voice, row in found["voices"].items()]
    rows = [named[i : i + VOICES_IN_A_ROW] for i in range(0, len(named), VOICES_IN_A_ROW)]
    own, even = found["own"], found["even"]
    return (
        f"Loudness of {len(named)} voices in LUFS, `level: own` → `even`, of texts that did not set the gains. "
        f"{own['least']} to {own['most']} before, {even['least']} to {even['most']} after. True peaks are up to "
        f"{own['true_peak_db']} dB before and {even['true_peak_db']} dB after:\n\n"
        f"{table([''] * VOICES_IN_A_ROW, [row + [''] * (VOICES_IN_A_ROW - len(row)) for row in rows], link)}"
    )


def formats(found: Found, link: str) -> str:
    names = list(dict.fromkeys(name for way in found.values() for name in way))
    lines = [[name, *(delay(way.get(name)) for way in found.values())] for name in names]
    return (
        "How many milliseconds later sounds come than in wav, and how many the file is longer, decoded by FFmpeg:\n\n"
        f"{table(['', *found], lines, link)}"
    )


def delay(row: Found | None) -> str:
    return f"{row['late_ms']:g}, {row['longer_ms']:g}" if row else ""


def repeat(found: Found, link: str) -> str:
    same = "the same" if found["the_same_with_word_times"] else "not the same"
    most = max(len(run["others"]) for run in found["runs"])
    return (
        f"One stream with a seed, {found['streams']} times, beside none to {most} other clients with clips, streams "
        f"and bulk work: {found['hashes']} SHA-256 ({link}). With word times the audio is {same}.\n"
    )


def dnsmos(found: Found, link: str) -> str:
    """A voice in each row, a way to speak in each column; nothing where DNSMOS was not at hand."""
    ways = list(next(iter(found.values())))
    if not all(row for voice in found.values() for row in voice.values()):
        return ""
    lines = [
        [voice, *(f"{row[way]['ovrl']:.2f}, {row[way]['p808']:.2f}" for way in ways)] for voice, row in found.items()
    ]
    return f"DNSMOS (speechmos), overall and P.808:\n\n{table(['', *ways], lines, link)}"


def unchanged(found: Found, link: str) -> str:
    if not found["sentences"]:
        return ""
    same = f"{found['the_same_bytes']} of {found['sentences']}"
    return f"With `trim: false`, {same} sentences have the bytes that they had before clips were trimmed ({link}).\n"


SECTIONS = {
    "prose": prose,
    "dnsmos": dnsmos,
    "ends": dnsmos,
    "pauses": pauses,
    "speeds": speeds,
    "levels": levels,
    "formats": formats,
    "repeat": repeat,
    "unchanged": unchanged,
}
