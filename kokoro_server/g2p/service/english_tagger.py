"""Parts of speech, by the network of spaCy's model and without its machinery, which takes most of the time of a short
text.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

log = logging.getLogger(__name__)

Floats = NDArray[np.float32]
TagWords = Callable[[Any], list[str]]  # of the tokens of a spaCy document

_MOST_WORDS = 8_192  # whose first layer is kept: some megabytes
_EPSILON = 1e-8
_PROBE = "Dr. Lee's 3 dogs didn't bark, so I read the read-me I'd written; isn't that (very) odd?"


def tags_of(nlp: Any) -> TagWords:
    """A function that returns the tags of a document, the same as the tagger of `nlp` would give."""
    try:
        tags = Tagger(nlp).tags
        if tags(nlp.make_doc(_PROBE)) == _spacy_tags(nlp, _PROBE):
            return tags
        log.warning("the tagger of this spaCy model is built in an unknown way, so spaCy runs it, which takes longer")
    except (AttributeError, KeyError, ValueError, StopIteration) as error:
        log.warning("the tagger of this spaCy model is built in an unknown way, so spaCy runs it error=%r", error)
    return lambda document: _spacy_tags(nlp, document)


def _spacy_tags(nlp: Any, text: Any) -> list[str]:
    return [token.tag_ for token in nlp(text)]


class Maxout(NamedTuple):
    """A layer: the greatest of `pieces` linear units, then a layer norm."""

    weight: Floats  # (inputs, pieces × outputs): the pieces of an output are not neighbours
    bias: Floats
    pieces: int
    gain: Floats
    shift: Floats

    @classmethod
    def of(cls, maxout: Any, norm: Any) -> Maxout:
        weight, bias = maxout.get_param("W"), maxout.get_param("b")
        outputs, pieces, inputs = weight.shape
        return cls(
            np.ascontiguousarray(weight.transpose(1, 0, 2).reshape(pieces * outputs, inputs).T),
            bias.T.reshape(-1).copy(),
            pieces,
            norm.get_param("G"),
            norm.get_param("b"),
        )

    def __call__(self, x: Floats) -> Floats:
        units = x @ self.weight
        units += self.bias
        width = len(self.gain)
        y = units[:, :width].copy()
        for piece in range(1, self.pieces):
            np.maximum(y, units[:, piece * width : (piece + 1) * width], out=y)
        y -= y.mean(1, keepdims=True)
        variance = np.einsum("ij,ij->i", y, y) / width + _EPSILON
        y /= np.sqrt(variance)[:, None]
        y *= self.gain
        y += self.shift
        return y


class Tagger:
    """spaCy's `tok2vec` (a hash embedding, then convolutions with a residual each) and `tagger`, of one model.

    The first layer sees one word at a time, so it is kept for the words that come again.
    """

    def __init__(self, nlp: Any) -> None:
        """Raises one of several errors for a model that is built in another way."""
        tok2vec, tagger = nlp.get_pipe("tok2vec").model, nlp.get_pipe("tagger")
        nodes = list(tok2vec.walk())
        layers = [Maxout.of(*pair) for pair in zip(_named(nodes, "maxout"), _named(nodes, "layernorm"), strict=True)]
        self._hash = tok2vec.ops.hash
        self._columns = _named(nodes, "extract_features")[0].attrs["columns"]
        embeddings = sorted(_named(nodes, "hashembed"), key=lambda node: int(node.attrs["column"]))
        self._embeddings: list[tuple[int, Floats]] = [(node.attrs["seed"], node.get_param("E")) for node in embeddings]
        embedded = sum(table.shape[1] for _, table in self._embeddings)
        [self._first] = [layer for layer in layers if len(layer.weight) == embedded]
        self._convolutions = [layer for layer in layers if layer is not self._first]
        self._width = len(self._first.gain)
        if {len(layer.weight) for layer in self._convolutions} != {3 * self._width}:
            raise ValueError("its convolutions are not of three words")
        [softmax] = _named(tagger.model.walk(), "softmax")
        self._weight, self._bias = np.ascontiguousarray(softmax.get_param("W").T), softmax.get_param("b")
        self._labels: tuple[str, ...] = tagger.labels
        self._words: dict[bytes, Floats] = {}

    def tags(self, document: Any) -> list[str]:
        if not len(document):
            return []
        margin = len(self._convolutions)
        x = np.zeros((len(document) + 2 * margin, self._width), np.float32)
        x[margin:-margin] = self._first_layer(document.to_array(self._columns))
        for layer in self._convolutions:
            # Each layer drops a word at both ends: the words of the document are left at last.
            y = layer(np.concatenate((x[:-2], x[1:-1], x[2:]), axis=1))
            y += x[1:-1]
            x = y
        scores = x @ self._weight + self._bias
        return [self._labels[label] for label in scores.argmax(1)]

    def _first_layer(self, features: NDArray[np.uint64]) -> list[Floats]:
        keys = [word.tobytes() for word in features]
        unknown = [place for place, key in enumerate(keys) if key not in self._words]
        if unknown:
            if len(self._words) + len(unknown) > _MOST_WORDS:
                self._words.clear()
                unknown = list(range(len(keys)))
            self._words.update(zip((keys[place] for place in unknown), self._embed(features[unknown]), strict=True))
        return [self._words[key] for key in keys]

    def _embed(self, features: NDArray[np.uint64]) -> Floats:
        """Each feature of a word is the sum of the rows of a table that its hashes point to."""
        columns = zip(features.T, self._embeddings, strict=True)
        rows = [
            table[self._hash(np.ascontiguousarray(column), seed) % len(table)].sum(1)
            for column, (seed, table) in columns
        ]
        return self._first(np.concatenate(rows, axis=1))


def _named(nodes: Any, name: str) -> list[Any]:
    return [node for node in nodes if node.name == name]
