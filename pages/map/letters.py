"""How broad a text is in a picture, whose letters no browser measures beforehand. Pure.

The breadths are those of DejaVu Sans, one of the broadest letters that a system has for its pages: in others
a text leaves room. Letters that are not in the table count as broad ones.
"""

from dataclasses import dataclass
from itertools import chain

_REGULAR = (
    (318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337, 636, 636, 636),
    (636, 636, 636, 636, 636, 636, 636, 337, 337, 838, 838, 838, 531, 1000, 684, 686, 698, 770, 632),
    (575, 775, 752, 295, 295, 656, 557, 863, 748, 787, 603, 787, 695, 635, 611, 732, 684, 989, 685),
    (611, 685, 390, 337, 390, 838, 500, 500, 613, 635, 550, 635, 615, 352, 635, 634, 278, 278, 579),
    (278, 974, 634, 612, 635, 635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636, 337, 636, 838),
)
_BOLD = (
    (348, 456, 521, 838, 696, 1002, 872, 306, 457, 457, 523, 838, 380, 415, 380, 365, 696, 696, 696),
    (696, 696, 696, 696, 696, 696, 696, 400, 400, 838, 838, 838, 580, 1000, 774, 762, 734, 830, 683),
    (683, 821, 837, 372, 372, 775, 637, 995, 837, 850, 733, 850, 770, 720, 682, 812, 774, 1103, 771),
    (724, 725, 457, 365, 457, 838, 500, 500, 675, 716, 593, 716, 678, 435, 716, 712, 343, 343, 665),
    (343, 1042, 712, 687, 716, 716, 493, 595, 478, 712, 652, 924, 645, 652, 582, 712, 365, 712, 838),
)
"""From the space to the tilde, in thousandths of the letters' size."""

_OTHER = 1000


@dataclass(frozen=True, slots=True)
class Letters:
    """Letters of one size in pixels, as the style of the picture has them."""

    size: int
    table: dict[str, int]

    def width(self, text: str) -> float:
        """How broad a text is, in pixels."""
        return sum(self.table.get(letter, _OTHER) for letter in text) * self.size / 1000

    def fitted(self, text: str, room: float) -> str:
        """A text cut in its middle to fit: names differ at their ends. Empty if nothing of it would."""
        if self.width(text) <= room:
            return text
        narrowest = min(self.table.values()) * self.size / 1000
        for count in range(min(len(text) - 1, int(room / narrowest)), 1, -1):
            tail = max(1, count * 2 // 3)
            cut = f"{text[: count - tail]}…{text[len(text) - tail :]}"
            if self.width(cut) <= room:
                return cut
        return ""

    def lines(self, text: str, room: float) -> list[str]:
        """A text in as many lines as it takes; a word that is too long for a line is cut."""
        lines = [""]
        for word in text.split(" "):
            longer = f"{lines[-1]} {word}".lstrip()
            if self.width(longer) <= room or not lines[-1]:
                lines[-1] = longer
            else:
                lines.append(word)
        return [self.fitted(line, room) for line in lines]


def _table(rows: tuple[tuple[int, ...], ...]) -> dict[str, int]:
    return {chr(code): breadth for code, breadth in enumerate(chain(*rows), ord(" "))}


NAME = Letters(12, _table(_BOLD))
TEXT = Letters(12, _table(_REGULAR))
SMALL = Letters(11, _table(_REGULAR))
MARK = Letters(10, _table(_BOLD))
