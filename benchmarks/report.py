"""Writes the figures of docs/performance.md and their picture from the files in `results`.

    kokoro-server bench report            write them
    kokoro-server bench report --check    fail if they differ from the files

The figures stand between two marks on the page. Text outside the marks is left alone.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import common, listening_tables, plot
from benchmarks.plot import Line, Panel
from benchmarks.tables import number, percent, table

BEGIN = "<!-- figures: written by `kokoro-server bench report` -->"
END = "<!-- end of figures -->"
PICTURE = "serve.svg"
OURS, ONE_AT_A_TIME = "kokoro-server", "one-at-a-time"
FIRST = object()  # the form of our server that was measured first
AUDIBLE = "first_audible_ms"  # older results do not have it
SHOWN_ROWS = (1, 8, 64)
START_REQUESTS = 10  # that `start_bench` asks for
DOLLARS = 3.0  # an hour of the machine
NAMES = {
    "kmodel": "plain `kokoro` model",
    "public-fp32": "public ONNX export, fp32",
    "public-int8": "public ONNX export, int8",
    "kokoro-onnx-fp32": "`kokoro-onnx` package, fp32 export",
    "kokoro-onnx-int8": "`kokoro-onnx` package, int8 export",
    "ours-torch": "ours, torch",
    "ours-onnx-fp32": "**ours, ONNX fp32**",
    "ours-onnx-int8-unsigned": "ours, ONNX int8 with unsigned weights, as before there were kernels for it",
    "ours-onnx-int8-graphs": "ours, ONNX int8, without the fused kernels",
    "ours-onnx-int8": "**ours, ONNX int8**",
}

Found = dict[str, Any]


def main() -> int:
    options = parse()
    try:
        return run(options.page, options.results, check=options.check)
    except (OSError, ValueError, KeyError) as error:
        sys.stderr.write(f"{error.__class__.__name__}: {error}\n")
        return 1


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="kokoro-server bench report", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if something is out of date")
    parser.add_argument("--page", type=Path, default=common.ROOT / "docs" / "performance.md")
    parser.add_argument("--results", type=Path, default=common.RESULTS)
    return parser.parse_args()


def run(page: Path, results: Path, *, check: bool) -> int:
    before = page.read_text(encoding="utf-8")
    wanted = {page: placed(before, figures(results, page.parent))}
    if served := read(results / "serve_cuda.json"):
        wanted[results / PICTURE] = picture(served)
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if check and stale:
        names = ", ".join(path.name for path in stale)
        sys.stderr.write(f"out of date: {names}; run 'kokoro-server bench report'\n")
        return 1
    for path in stale:
        path.write_text(wanted[path], encoding="utf-8")
    for name in SECTIONS:
        if not (results / name).exists():
            print(f"no figures of {name}: there is no such file")
    print("up to date" if not stale else f"written: {', '.join(path.name for path in stale)}")
    return 0


def read(path: Path) -> Found | None:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def placed(text: str, figures: str) -> str:
    """The text with the figures between its marks."""
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no place for the figures: put {BEGIN} and {END} on lines of their own")
    return f"{head}{BEGIN}\n\n{figures}\n{END}{tail}"


def figures(results: Path, home: Path) -> str:
    parts = []
    for name, section in SECTIONS.items():
        if found := read(results / name):
            link = f"[json]({Path(os.path.relpath(results / name, home)).as_posix()})"
            parts.append(section(found, link))
    return "\n".join(parts)


def engine_cuda(found: Found, link: str) -> str:
    by_rows = {entry["rows"]: entry for entry in found["rows"]}
    shown = [count for count in SHOWN_ROWS if count in by_rows]
    lines = [
        [str(count), f"{number(by_rows[count]['equal']['ms'])} ms", number(by_rows[count]["equal"]["audio_s_per_s"])]
        for count in shown
    ]
    packed = by_rows[shown[-1]]["packed"]
    name = f"{shown[-1]} real sentences, packed by length as the queue does"
    lines.append([name, f"{number(packed['ms'])} ms", number(packed["audio_s_per_s"])])
    plain = found["kmodel"]
    plain_name = "plain `kokoro` model, one at a time, same card, same run"
    lines.append([plain_name, f"{number(plain['equal_ms'])} ms", number(plain["equal_audio_s_per_s"])])
    clip = by_rows[shown[0]]["equal"]["audio_s"] / shown[0]
    head = ["requests at once", f"a {clip:g} s clip for each takes", "audio-seconds per second"]
    intro = f"The engine on one {found['gpu']}, {found['precision']}, phonemes to samples in host memory:"
    return f"{intro}\n\n{table(head, lines, link)}"


def serve(found: Found, link: str) -> str:
    """Each line is one number of clients on one endpoint: what they got together, and how long each waited."""
    kinds: list[tuple[str, str, str, object]] = [
        ("clips", OURS, "/tts", FIRST), ("streams", OURS, "/tts/stream", FIRST)
    ]  # fmt: skip
    kinds += [(f"clips, `SERVER_PROCESSES={form}`", OURS, "/tts", form) for form in found.get("forms", [])[1:]]
    kinds.append(("clips of a server that takes one at a time", ONE_AT_A_TIME, "/tts", FIRST))
    shown = [
        (name, run)
        for name, server, endpoint, form in kinds
        for run in sorted(closed(found, server, form), key=lambda run: int(run["clients"]))
        if run["endpoint"] == endpoint
    ]
    plain = found.get("plain_model")
    columns = {
        head: show for head, show in serve_columns(plain).items() if any(show(run) for _, run in shown)
    }  # what was not measured has no column
    lines = [[name, str(run["clients"]), *(show(run) for show in columns.values())] for name, run in shown]
    if plain:
        name = "plain `kokoro` model, one at a time, no server, same card, same run"
        speeds = number(plain["audio_per_second"])
        if rounds := plain.get("rounds"):
            speeds += f" ({number(min(rounds))} to {number(max(rounds))} in {len(rounds)} rounds)"
        lines.append([name, "", speeds, *[""] * (len(columns) - 1)])
    intro = f"The whole server on one {found['device']}, over HTTP, clients that always want more:"
    folder = link.removeprefix("[json](").rpartition("/")[0]
    image = f"![Throughput and time to first audio against the number of clients]({folder}/{PICTURE})"
    return f"{intro}\n\n{table(['', 'clients', *columns], lines, link)}\n{image}\n"


def serve_columns(plain: Found | None) -> dict[str, Callable[[Found], str]]:
    """What is shown of a run, by the head of its column; empty where it was not measured."""

    def times(run: Found) -> str:
        return number(run["audio_per_second"] / plain["audio_per_second"]) if plain else ""

    def per_kwh(run: Found) -> str:
        return number(1000 * run["audio_per_second"] / run["smi_watts"]) if "smi_watts" in run else ""

    def per_dollar(run: Found) -> str:
        return number(run["audio_per_second"] / DOLLARS) if "smi_watts" in run else ""

    return {
        "audio-seconds per second": lambda run: number(run["audio_per_second"]),
        "times the plain model": times,
        "first audio: p50": lambda run: latency(run, "p50"),
        "p95": lambda run: latency(run, "p95"),
        "first audible sound: p50": lambda run: latency(run, "p50", AUDIBLE),
        "its p95": lambda run: latency(run, "p95", AUDIBLE),
        "failed requests": failed,
        "GPU busy": busy,
        "watts of the card": lambda run: number(run["smi_watts"]) if "smi_watts" in run else "",
        "audio-hours per kWh of the card": per_kwh,
        f"audio-hours per dollar, at {DOLLARS:g} dollars an hour": per_dollar,
    }


def start(found: Found, link: str) -> str:
    """From the command to the first answer; what the next requests take; how long one waits for an unloaded model."""
    files = "nothing in the page cache, as after a boot" if found["drop_caches"] else "the model's files not in memory"
    lines = [
        [
            name,
            f"{number(found[kind]['first_answer_s'])} s",
            f"{number(found[kind]['second_request_ms'])} ms",
            f"{number(found[kind]['tenth_request_ms'])} ms",
        ]
        for kind, name in (("cold", files), ("warm", "all files in memory"))
    ]
    if again := found.get("reload"):
        lines.append(["the model was unloaded", f"{number(statistics.median(again['unloaded_s']))} s", "", ""])
    head = [f"start on {found['device']}", "first answer after", "second request", f"request number {START_REQUESTS}"]
    return table(head, lines, link)


def closed(found: Found, server: str, form: object = FIRST) -> list[Found]:
    """Runs of clients that send text, each its next when the last is answered. Of ours, those of one form."""
    if form is FIRST:
        form = found.get("forms", [None])[0]
    runs = [run for run in found["runs"] if run["mode"] == "closed" and run["server"] == server]
    return [
        run for run in runs if run.get("input", "text") == "text" and (server != OURS or run.get("processes") == form)
    ]


def failed(run: Found) -> str:
    return f"{run['errors']} of {run['requests'] + run['errors']:,}"


def busy(run: Found) -> str:
    return percent(run["device_busy"]) if run.get("device_busy") is not None else ""


def latency(run: Found, rank: str, of: str = "first_audio_ms") -> str:
    found = run.get(of, {}).get(rank)
    return "" if found is None else f"{number(found)} ms"


def bulk(found: Found, link: str) -> str:
    """What a bulk run gets beside others, and what they notice of it."""
    windows, ratios, count = found["windows"], found["ratios"], found["streams"]
    names = {
        "listeners": f"{count} listeners, who ask again when what they got has been played",
        "streams": f"{count} streams that ask again at once",
    }
    lines = [["nobody", number(windows["bulk"]["bulk_audio_per_second"]), percent(ratios["bulk_by_engine"]), "", ""]]
    for alone, together in (("listeners", "bulk_and_listeners"), ("streams", "both")):
        if together not in windows:
            continue
        beside = windows[together]
        waits = [
            ", ".join(latency(each["streams"], rank) for rank in ("p50", "p95")) for each in (windows[alone], beside)
        ]
        share = percent(ratios[f"share_beside_{alone}"])
        lines.append([names[alone], number(beside["bulk_audio_per_second"]), share, *waits])
    head = [
        "beside `kokoro-server bulk`",
        "bulk: audio-seconds per second",
        "bulk and they, of what the engine makes",
        "their first audio without bulk: p50, p95",
        "beside it",
    ]
    intro = f"A bulk run and others on one server with one {found['device']}:"
    return f"{intro}\n\n{table(head, lines, link)}"


def engine_cpu(found: Found, link: str) -> str:
    clips = found["clips"]
    names = [name for name in NAMES if any(name in clip["contenders"] for clip in clips)]
    lines = [[NAMES[name], *(spoken(clip, name) for clip in clips)] for name in names]
    head = ["audio-seconds per second, clip of", *(f"{clip['audio_seconds']:.1f} s" for clip in clips)]
    place = ", ".join([found["machine"]["cpu"], *([found["instructions"]] if "instructions" in found else [])])
    intro = f"On a CPU ({place}; {found['threads']} threads), one clip at a time, contenders in turns:"
    return f"{intro}\n\n{table(head, lines, link)}"


def spoken(clip: Found, name: str) -> str:
    return number(clip["contenders"][name]["audio_s_per_s"]) if name in clip["contenders"] else ""


def fidelity_cuda(found: Found, link: str) -> str:
    half = found["engines"]["cuda-fp16"]
    same, spectrum = half["same_curves_and_noise"], half["log_mel_db"]
    floors = [found["floor"]["log_mel_db"]] if "floor" in found else []
    lines = [
        ["durations that differ", f"{same['durations_moved']:,} of {same['durations']:,}"],
        ["signal to error, same F0 and noise: median", f"{same['snr_db_median']} dB"],
        ["signal to error, same F0 and noise: lowest", f"{same['snr_db_min']} dB"],
        ["sentences below 40 dB", f"{same['snr_below_40_db']} of {same['sentences']:,}"],
        ["spectrum (log-mel) apart: mean", f"{spectrum['mean']} dB"],
        *(["two runs of the plain model, different noise", f"{noise['mean']} dB"] for noise in floors),
        *heard(found, {"cuda-fp16": "fp16", found["reference"]: "single precision"}),
    ]
    intro = f"How near fp16 is to single precision, {same['sentences']:,} sentences, {found['voices']} voices:"
    return f"{intro}\n\n{table(['on the GPU', ''], lines, link)}"


def fidelity_cpu(found: Found, link: str) -> str:
    lines = []
    for name, engine in found["engines"].items():
        moved, spectrum = engine["durations"], engine["log_mel_db"]
        lines.append([f"{name}: durations that differ", f"{moved['durations_moved']:,} of {moved['durations']:,}"])
        lines.append([f"{name}: level apart, at most", f"{engine['level_db']['most']} dB"])
        lines.append([f"{name}: spectrum (log-mel) apart: mean", f"{spectrum['mean']} dB"])
    lines.append(["two runs of torch fp32, different noise", f"{found['floor']['log_mel_db']['mean']} dB"])
    lines += heard(found, {name: name for name in found.get("heard", {}).get("engines", {})})
    intro = f"How near the CPU engines are to torch in single precision, {found['voices']} voices:"
    return f"{intro}\n\n{table(['on a CPU', ''], lines, link)}"


def heard(found: Found, names: dict[str, str]) -> list[list[str]]:
    listened = found.get("heard", {})
    return [
        [f"words that Whisper hears wrongly: {shown}", f"{engines[name]['word_errors']} of {listened['words']:,}"]
        for name, shown in names.items()
        if name in (engines := listened.get("engines", {}))
    ]


SECTIONS: dict[str, Callable[[Found, str], str]] = {
    "engine_cuda.json": engine_cuda,
    "serve_cuda.json": serve,
    "start_cuda.json": start,
    "bulk_cuda.json": bulk,
    "engine_cpu_amx.json": engine_cpu,
    "engine_cpu_x86.json": engine_cpu,
    "engine_cpu_avx512bw.json": engine_cpu,
    "engine_cpu.json": engine_cpu,
    "fidelity_cuda.json": fidelity_cuda,
    "fidelity_cpu.json": fidelity_cpu,
    "listening.json": listening_tables.listening,
}


def picture(found: Found) -> str:
    def line(name: str, server: str, endpoint: str, value: Callable[[Found], float], dashed: bool = False) -> Line:
        points = [(run["clients"], value(run)) for run in closed(found, server) if run["endpoint"] == endpoint]
        return Line(name, [point for point in points if point[1] > 0], "a" if server == OURS else "b", dashed)

    def audio(run: Found) -> float:
        return float(run["audio_per_second"])

    def first(rank: str) -> Callable[[Found], float]:
        return lambda run: float(run["first_audio_ms"][rank])

    throughput = [line(OURS, OURS, "/tts", audio), line("one model call at a time", ONE_AT_A_TIME, "/tts", audio)]
    if plain := found.get("plain_model"):
        level = [(clients, plain["audio_per_second"]) for clients, _ in throughput[0].points]
        throughput.append(Line("plain model, no server", level, "b", dashed=True))
    latency = [
        line(f"{OURS}, p50", OURS, "/tts/stream", first("p50")),
        line(f"{OURS}, p95", OURS, "/tts/stream", first("p95"), True),
        line("one at a time, p50", ONE_AT_A_TIME, "/tts", first("p50")),  # it has no streams
        line("one at a time, p95", ONE_AT_A_TIME, "/tts", first("p95"), True),
    ]
    clients = "clients at once (both axes logarithmic)"
    panels = [
        Panel("Throughput", clients, "audio-seconds per second", [one for one in throughput if one.points]),
        Panel("Time to first audio", clients, "milliseconds", [one for one in latency if one.points]),
    ]
    return plot.svg(panels, f"Throughput and time to first audio against the number of clients, {found['device']}")


if __name__ == "__main__":
    sys.exit(main())
