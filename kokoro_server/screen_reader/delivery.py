"""How a message is said: Speech Dispatcher's settings as fields of a request."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

FASTEST = 3.0  # at rate 100; 1 is about 170 words a minute
SLOWEST = 0.5  # at rate -100
SEMITONES = 6.0  # at pitch 100
QUIETEST = -60.0  # dB

RequestFields = dict[str, object]


@dataclass(frozen=True, slots=True)
class KnownVoice:
    name: str
    language: str
    gender: str
    grade: str | None = None


@dataclass(slots=True)
class SpeechSettings:
    """The last value of each setting, as Speech Dispatcher sends them before each message."""

    values: dict[str, str] = field(default_factory=dict)

    def set(self, name: str, value: str) -> bool:
        """False if the value is not of its kind. Names that are not known are kept and have no effect."""
        if name in ("rate", "pitch", "pitch_range", "volume"):
            try:
                number = int(value)
            except ValueError:
                return False
            value = str(max(-100, min(100, number)))
        self.values[name] = value
        return True

    def _number(self, name: str, default: int = 0) -> int:
        return int(self.values.get(name, default))

    def _word(self, name: str) -> str:
        value = self.values.get(name, "")
        return "" if value == "NULL" else value

    @property
    def punctuation(self) -> str:
        return self._word("punctuation_mode") or "none"

    @property
    def spelling(self) -> bool:
        return self._word("spelling_mode") == "on"

    @property
    def names_capitals(self) -> bool:
        return self._word("cap_let_recogn") in ("spell", "icon")

    @property
    def language(self) -> str:
        return self._word("language")

    @property
    def speed(self) -> float:
        """Each step is the same ratio, on either side of the voice's own pace."""
        rate = self._number("rate")
        ratio = FASTEST if rate > 0 else 1 / SLOWEST
        return round(math.exp(math.log(ratio) * rate / 100), 3)

    @property
    def semitones(self) -> float:
        return round(self._number("pitch") * SEMITONES / 100, 2)

    @property
    def decibels(self) -> float:
        """100, which is the usual value, is the voice's own level; 0 is half the amplitude; -100 is silence."""
        share = (self._number("volume", 100) + 100) / 200
        return round(max(QUIETEST, 20 * math.log10(share)), 2) if share > 0 else QUIETEST

    def fields(self, voices: Sequence[KnownVoice], preferred: str) -> RequestFields:
        """The fields of a request. `preferred` is the voice of messages that do not ask for another."""
        chosen = self.voice(voices, preferred)
        fields: RequestFields = {"speed": self.speed, "pitch": self.semitones, "volume": self.decibels}
        if chosen:
            fields["voice"] = chosen.name
        elif preferred:
            fields["voice"] = preferred
        return fields

    def voice(self, voices: Sequence[KnownVoice], preferred: str) -> KnownVoice | None:
        """The voice by its name; else one of the language and of the kind that is asked for, the best first.

        `male1` is what every program asks for that does not choose: it stands for the preferred voice. A language that
        no voice speaks is read by the preferred voice: to hear something is better than to hear nothing.
        """
        by_name = {voice.name: voice for voice in voices}
        if named := by_name.get(self._word("synthesis_voice")):
            return named
        usual = by_name.get(preferred)
        language = self.language.replace("_", "-").lower()
        of_language = [voice for voice in voices if voice.language.lower() == language]
        if not of_language:
            primary = language.partition("-")[0]
            of_language = [voice for voice in voices if voice.language.lower().partition("-")[0] == primary]
        of_language.sort(key=_rank)
        kind = self._word("voice").lower().removeprefix("child_")
        gender, number = kind.rstrip("0123456789"), kind[len(kind.rstrip("0123456789")) :]
        if kind in ("", "male1"):
            if usual and (usual in of_language or not of_language):
                return usual
            return of_language[0] if of_language else None
        of_kind = [voice for voice in of_language or sorted(voices, key=_rank) if voice.gender == gender]
        if not of_kind:
            return of_language[0] if of_language else usual
        return of_kind[min(int(number or 1), len(of_kind)) - 1]


def _rank(voice: KnownVoice) -> tuple[str, int, str]:
    """By the grade: A is before A-, and a voice without one comes last."""
    grade = voice.grade or "Z"
    return grade[0], {"+": -1, "-": 1}.get(grade[1:], 0), voice.name


def of_listing(listing: Mapping[str, object]) -> list[KnownVoice]:
    """The voices of `GET /voices` whose language the server can read. Raises ValueError for another answer."""
    try:
        voices = listing["voices"]
        assert isinstance(voices, list)
        return [
            KnownVoice(str(voice["name"]), str(voice["language"]), str(voice.get("gender", "")), voice.get("grade"))
            for voice in voices
            if voice.get("installed", True)
        ]
    except (KeyError, TypeError, AssertionError, AttributeError) as error:
        raise ValueError(f"no list of voices: {error!r}") from error
