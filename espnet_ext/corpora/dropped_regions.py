"""Regions of recordings whose words are not known, or whose word times overlap: left out of training, listed in a file,
refused above a share.
"""

from collections.abc import Sequence
from pathlib import Path

from espnet_ext.corpora.faults import SHARE, SHOWN
from espnet_ext.errors import InputError
from espnet_ext.longform.alignment.word_times import DROPPED, drop_overlaps, word_faults
from espnet_ext.longform.recording_audio import write_regions
from espnet_ext.text.transcript import Word

_NOTHING = 1e-6  # seconds, of sums


class DroppedRegions:
    """Drops the regions of a corpus in which word times overlap or go back, and those of unknown words.

    Args:
        where: The corpus, for the messages.
        file: Gets all regions, ``recording start end`` in a line, in seconds (None: they are not written).
        share: The share of the spoken seconds that may be dropped; 2 % if it is less. A recording is spoken until the
            end of its last word.
    """

    def __init__(self, where: Path, file: Path | None, share: float = 0.0):
        self.where, self.file, self.share = where, file, max(share, SHARE)
        self.regions: dict[str, list[tuple[float, float]]] = {}
        self._spoken: dict[str, float] = {}
        self._unknown: dict[str, float] = {}

    def drop(self, recording: str, words: Sequence[Word], seconds: float) -> list[Word] | str:
        """The words of a recording of a length, with one called ``<dropped>`` for each such region; or their fault.

        Words of that name are those that are not known.
        """
        kept = drop_overlaps(words)
        fault = word_faults(kept, seconds)
        if fault or not spoken_text(kept):
            return fault or word_faults(words, seconds) or "no word in it, or all words are unknown"
        self._spoken[recording] = kept[-1].end
        unknown = {(word.start, word.end) for word in words if word.text == DROPPED}
        regions = [(word.start, word.end) for word in kept if word.text == DROPPED]
        self.regions[recording] = regions
        self._unknown[recording] = sum(end - start for start, end in regions if (start, end) in unknown)
        return kept

    def settle(self) -> None:
        """Write the regions to the file; refuse them if they are more than the share, and name the worst recordings."""
        totals = {key: sum(end - start for start, end in regions) for key, regions in self.regions.items()}
        seconds = {key: total for key, total in totals.items() if total}
        if self.file:
            self.file.unlink(missing_ok=True)
        if not seconds:
            return
        if self.file:
            write_regions(self.file, self.regions)
        lost, unknown, spoken = (sum(table.values()) for table in (seconds, self._unknown, self._spoken))
        worst = sorted(seconds, key=lambda key: -seconds[key])
        named = ", ".join(f"{key} ({seconds[key]:,.1f} s)" for key in worst[:SHOWN])
        more = f" and {len(worst) - SHOWN:,} more" if len(worst) > SHOWN else ""
        listed = f" (all regions: {self.file})" if self.file else ""
        found = {"word times overlap": lost - unknown, "words are unknown (such as <unk>)": unknown}
        each = " and ".join(f"{what} in {total:,.1f}" for what, total in found.items() if total > _NOTHING)
        what = f"{each} of {spoken:,.1f} s ({100 * lost / spoken:.1f} %), most in {named}{more}"
        if lost > self.share * spoken:
            raise InputError(
                f"{self.where}: {what}; at most {100 * self.share:g} % may be left out: fix or remove these "
                f"transcripts, or give --skip-faulty a higher percentage{listed}"
            )
        print(f"warning: {self.where}: {what}: left out of training{listed}", flush=True)


def spoken_text(words: Sequence[Word]) -> str:
    """The words outside dropped regions, joined by spaces."""
    return " ".join(word.text for word in words if word.text != DROPPED)


def dropped_file(output_dir: str | Path | None, corpus: str) -> Path | None:
    """Where the regions of a corpus go: into the folder of its manifests."""
    return None if output_dir is None else Path(output_dir) / f"{corpus}_dropped.txt"
