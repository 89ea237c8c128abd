"""Sentences for `serve_bench`, by number: no two of the first half million are alike.

They are put together from phrases. Nine patterns take turns, from a few words to two clauses: one in seven is shorter
than 50 characters, and the mean is 90, or 6 s of speech. The sentences of a pattern go through all combinations of its
phrases.
"""

from __future__ import annotations

import math
from functools import cache
from string import Formatter


def phrases(text: str) -> tuple[str, ...]:
    return tuple(" ".join(phrase.split()) for phrase in text.split(";"))


ADJECTIVES = phrases("""
    old; young; tired; cheerful; careful; nervous; famous; local; quiet; stubborn; clever; retired; foreign; gentle;
    hungry; jealous; lonely; polite; proud; sleepy; strange; thoughtful; wealthy; anxious; brave; curious; elegant;
    friendly; generous; honest; patient; silent; worried; tall; barefoot; bearded; talkative; grateful; reluctant;
    enthusiastic; absent-minded
""")
NOUNS = phrases("""
    gardener; teacher; captain; neighbour; engineer; painter; doctor; farmer; student; musician; baker; librarian;
    carpenter; pilot; nurse; lawyer; mechanic; professor; waiter; tailor; dancer; fisherman; journalist; plumber;
    photographer; shepherd; soldier; surgeon; tourist; traveller; architect; astronomer; butcher; cyclist;
    detective; electrician; firefighter; hairdresser; interpreter; juggler; mayor; novelist; optician; postman;
    referee; sculptor; translator
""")
ACTIONS = phrases("""
    smiled; laughed; fell asleep; left early; said nothing; waited; changed the subject; began to sing; opened the
    window; closed the door; found the key; lost the map; bought some bread; drank the tea; painted the fence; fixed
    the radio; read the letter aloud; told an unlikely story; forgot the umbrella; counted the money twice; watered
    all the plants; folded the newspaper; lit another candle; asked for directions; missed the last train; carried
    the heavy boxes; cooked dinner for everyone; borrowed a pair of gloves; wrote down every word; looked at the
    photographs; repaired the wooden bridge; planted a row of apple trees; refused to answer the question; won the
    chess tournament; sold the blue bicycle; tuned the grand piano; cleaned the kitchen floor; drew a circle on the
    board; packed a small suitcase; read the instructions carefully; measured the temperature; whistled an old tune;
    called the fire brigade
""")
PLACES = phrases("""
    in the garden; by the river; at the station; behind the church; on the balcony; near the harbour; under the
    bridge; in the back of the shop; at the edge of the forest; on the top floor; across the street; outside the
    theatre; in the waiting room; along the coast; beside the fountain; on the way to the airport; in an empty
    classroom; at the foot of the mountain; between two parked cars; in the middle of the square; on platform number
    nine; in the shade of a walnut tree; next to the post office; at the far end of the hall; inside the greenhouse;
    on a narrow wooden bench; in front of the museum; above the bakery; by the fireplace
""")
TIMES = phrases("""
    yesterday; last week; on Monday morning; after lunch; before sunrise; late in the evening; in April; a few years
    ago; during the storm; at half past seven; on the first day of spring; once again; at the end of the meeting;
    while it was raining; long before the war; to our surprise; as usual; in spite of the cold; without a word; just
    after midnight; when the music stopped; at the very last moment; on a clear winter night; shortly before
    Christmas; according to the newspaper; if I remember correctly; for the third time that day; when nobody was
    looking; with a certain reluctance; on their anniversary; as soon as the rain had stopped
""")
REASONS = phrases("""
    because nobody else would do it; which surprised the whole family; although it was already dark; and everyone in
    the room applauded; so that the children could sleep; as if nothing had happened; while the others were still
    talking; but it was too late to change anything; for reasons that were never explained; which made the evening
    even stranger; even though the doctor had advised against it; because the weather was about to turn; and that
    was the end of the argument; just as the lights went out; which is more than most of us can say; and the dog
    watched with great interest; in order to save a little time; until the neighbours finally complained; though it
    hardly seemed to matter any more; because there was no other way to get home before the snow; and nobody ever
    found out why; which turned out to be an excellent idea; as people in that part of the country often do
""")

SLOTS = {
    "adjective": ADJECTIVES, "noun": NOUNS, "action": ACTIONS, "place": PLACES, "time": TIMES, "reason": REASONS,
    "adjective2": ADJECTIVES, "noun2": NOUNS, "action2": ACTIONS,
}  # fmt: skip
PATTERNS = (
    "the {adjective} {noun} {action}.",
    "{time}, the {adjective} {noun} {action} {place}, {reason}.",
    "the {adjective} {noun} {action} {place}.",
    "{time}, the {adjective} {noun} {action}, and the {adjective2} {noun2} {action2}.",
    "{time}, the {adjective} {noun} {action} {place}.",
    "the {adjective} {noun} {action}, {reason}.",
    "the {noun} {action} {place}.",
    "{time}, the {adjective} {noun} {action} {place}, and the {adjective2} {noun2} {action2}, {reason}.",
    "{time}, the {adjective} {noun} {action}, {reason}.",
)
GOLDEN = 0.618  # of all combinations: the step from one sentence of a pattern to its next, so that all phrases change


def sentence(number: int) -> str:
    turn, which = divmod(number, len(PATTERNS))
    pattern = PATTERNS[which]
    rest = (turn + which) * step(pattern) % combinations(pattern)
    words = {}
    for name in slots(pattern):
        rest, choice = divmod(rest, len(SLOTS[name]))
        words[name] = SLOTS[name][choice]
    text = pattern.format_map(words)
    return text[0].upper() + text[1:]


@cache
def slots(pattern: str) -> tuple[str, ...]:
    return tuple(name for _, name, _, _ in Formatter().parse(pattern) if name)


@cache
def combinations(pattern: str) -> int:
    """How many sentences a pattern makes before they repeat."""
    return math.prod(len(SLOTS[name]) for name in slots(pattern))


@cache
def step(pattern: str) -> int:
    """It has no factor in common with the combinations, so that each of them comes once."""
    size = combinations(pattern)
    return next(step for step in range(int(GOLDEN * size), size) if math.gcd(step, size) == 1)
