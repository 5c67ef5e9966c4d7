"""Which of many short texts a few words are about: rare words count more, long texts less."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence

# Scripts without spaces between words: each character is a word.
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W_]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_ENDINGS = ("ing", "ed", "es", "s", "e")  # parsing, parsed, parses, parse
_SHORTEST_STEM = 3
_SHORTEST_PREFIX = 3
_PREFIX_COUNTS = 0.5  # beside a whole word

# The usual constants of BM25: how soon repetition stops to count, how much length does.
_SATURATION = 1.2
_LENGTH = 0.75


def words_of(text: str) -> list[str]:
    """Return the words of a text or a name, without the commonest endings."""
    return [_stem(word) for word in _WORD.findall(_HUMP.sub(" ", text).lower())]


def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            return word.removesuffix(ending)
    return word


class Ranking:
    """Texts to be searched. Each is a mapping of its parts to what a word in them counts."""

    def __init__(self, texts: Sequence[Mapping[str, float]]) -> None:
        counts = [_weighted(text) for text in texts]
        lengths = [sum(each.values()) for each in counts]
        average = (sum(lengths) / len(lengths) if lengths else 0.0) or 1.0
        self._fading = [1 - _LENGTH + _LENGTH * length / average for length in lengths]
        self._places: dict[str, dict[int, float]] = {}
        for place, words in enumerate(counts):
            for word, weight in words.items():
                self._places.setdefault(word, {})[place] = weight

    def best(self, query: str) -> list[int]:
        """Return the places of the texts that say something of the query, best first."""
        scores: dict[int, float] = {}
        for word in dict.fromkeys(words_of(query)):
            for place, score in self._scores(word).items():
                scores[place] = scores.get(place, 0.0) + score
        return sorted(scores, key=lambda place: (-scores[place], place))

    def _scores(self, word: str) -> dict[int, float]:
        found: dict[int, float] = {}
        for known, share in self._alike(word):
            places = self._places[known]
            rarity = math.log(1 + (len(self._fading) - len(places) + 0.5) / (len(places) + 0.5))
            for place, weight in places.items():
                damped = weight / (weight + _SATURATION * self._fading[place])
                found[place] = max(found.get(place, 0.0), share * rarity * damped)
        return found

    def _alike(self, word: str) -> Iterable[tuple[str, float]]:
        if word in self._places:
            yield word, 1.0
        if len(word) >= _SHORTEST_PREFIX:
            for known in self._places:
                if known != word and known.startswith(word):
                    yield known, _PREFIX_COUNTS


def _weighted(text: Mapping[str, float]) -> dict[str, float]:
    found: dict[str, float] = {}
    for part, weight in text.items():
        for word in words_of(part):
            found[word] = found.get(word, 0.0) + weight
    return found
