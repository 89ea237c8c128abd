"""A text that comes in parts, cut anywhere, is said as if it had come whole."""

from __future__ import annotations

import re

import pytest

from kokoro_server.languages import EN_GB, EN_US, Language
from kokoro_server.text.options import ReadingOptions
from kokoro_server.text.pauses import Pause, split_pauses
from kokoro_server.text.sentence_buffer import SentenceBuffer
from kokoro_server.text.written import WrittenText

TEXTS = [
    "It costs $1,250.50. She paid 3.5 euros.",
    "From 3:30pm to 4 p.m. Then we left. It was 1990.",
    "Dr. Smith met Mrs. Jones. J. R. R. Tolkien wrote it.",
    "The box weighs 10 kg. He was 1st, I was 2nd.",
    "**Bold. Very bold.** And then. It was *so. good*.",
    "See [the docs. Really](https://a.org/b.c?d=1). Then go on.",
    "Use `a.b. C` now. Then `x = 1.` Done.",
    "![A cat. Sleeping](https://a.org/cat.png) Nice. Is it not?",
    "Call acct. No. 5 at 555-0199. Ask for Jan. 3 or Feb. 4.",
    "On Dec. 25, 2024 we met. On 2024-12-25. On 12/25/2024.",
    "Mail me@a.org. Go to www.example.com. Then to a.b.org/c.",
    "It is e.g. this, i.e. that. The U.S. Army. In the U.S. The law.",
    "He ran 3.2 mi. in 20 min. It took 5 hrs. of work. Then he sat.",
    "Version 1.2.3. Then 2.0. IP 10.0.0.1. Done.",
    "# A title\n\n- One. Two.\n- Three\n\n1. Wash.\n2. Dry.\n",
    "So:\n```python\nx = 1. # Yes. No.\n```\nDone. Good.",
    "| a | b. C |\n|---|---|\n| 1 | 2. 3 |\n\nAfter it.",
    "The sum is $x. + y$ and $5. Then $10.",
    "Henry VIII. ruled. Louis XIV. did too. World War II. It ended.",
    "5'11\" tall. 72°F. -5°C. It fell by -$5. Then -3.",
    "No. 5 is alive. No. He is not. p. 5. pp. 4-6. Fig. 3. See it.",
    "St. James's St. is near. Mt. Everest. Ft. Worth. Bring etc. Then go.",
    "3.\n5. 7. So it is 3. 5 people came.",
    "Wait… What? Yes!! \"Stop.\" she said. (See p. 3.) Then.",
    "10–20. 3-4. 2:1. 1/2 cup. 3 3/4 in. of rain. ½ of it.",
    "<b>Bold. Text</b> here. &amp; so. AT&T Inc. won. Smith Jr. He lost.",
    "Pi is 3.14159. $1.5 million. 2.5K. 1e5. 5 m². 3 km/h.",
    "[pause:1s] Go. [Kokoro](/kˈOkəɹO/) is. Dr. [Who](/hˈu/) said 5.",
    "Meet at 10 a.m. EST. At 10:30 A.M. Tom came. By 5 p.m. he left.",
    "~~Old. Gone.~~ __New. Here.__ _It. is_. snake_case. a_b.",
    "> A quote. It is.\n> More.\n\n---\n\nNext. 5.",
    "E = mc². x^2. 2+2=4. 3 < 4. a/b. and/or. w/o it.",
    "😀 Hi. 👨‍👩‍👧 Go. :) Yes. <3 No.",
    "The 1990s. The '90s. The 5th. A 21st. Item(s). DVDs. 7%.",
    "https://a.org/x.y. Then http://b.org. See a.com, b.net. #tag @me. C++.",
]  # fmt: skip


def said(text: str, language: Language) -> str:
    written = WrittenText(list(split_pauses(text)), language, None, ReadingOptions())
    parts = (part for part in written.sentences() if part)
    texts = ("[pause]" if isinstance(part, Pause) else "".join(part.texts) for part in parts)
    return re.sub(r"[^\w/\[\]]|_", "", "".join(texts)).lower()


def said_in_parts(parts: list[str], language: Language = EN_US) -> str:
    buffer = SentenceBuffer(language)
    sentences = [sentence for part in parts for sentence in buffer.append(part)]
    return "".join(said(sentence, language) for sentence in (*sentences, *buffer.flush()))


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_in_two_parts_is_said_as_in_one(text: str) -> None:
    whole = said(text, EN_US)
    wrong = {
        (text[:cut], text[cut:]): found
        for cut in range(1, len(text), 1 if len(text) < 50 else 2)
        if (found := said_in_parts([text[:cut], text[cut:]])) != whole
    }
    assert wrong == {}, whole


@pytest.mark.parametrize(("size", "language"), [(1, EN_US), (7, EN_GB)])
def test_a_text_in_many_parts_is_said_as_in_one(size: int, language: Language) -> None:
    for text in (*TEXTS, " ".join(TEXTS[:5]), "\n\n".join(TEXTS[10:20])):
        parts = [text[start : start + size] for start in range(0, len(text), size)]
        assert said_in_parts(parts, language) == said(text, language)


def test_a_sentence_is_returned_as_soon_as_nothing_can_change_how_it_is_read() -> None:
    buffer = SentenceBuffer()
    text = "It is **5.5 km** to `a.b`. Then see [it](https://a.org). I paid $5. He paid more. And so on."
    found = [(text[: n + 1][-8:], sentence) for n, letter in enumerate(text) for sentence in buffer.append(letter)]
    assert found == [
        ("`a.b`. T", "It is **5.5 km** to `a.b`."),
        (".org). I", "Then see [it](https://a.org)."),
        ("id $5. H", "I paid $5."),
        (" more. A", "He paid more."),
    ]


def test_a_number_at_the_beginning_of_a_sentence_is_not_lost() -> None:
    assert said("It rained. ½ of it.", EN_US) == "itrainedonehalfofit"
