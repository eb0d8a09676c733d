#!/usr/bin/env python3
"""Draw a recording of a test set: reference and transcript of each speaker in time, windows, and errors.

  python local/plot_recording.py --set data/mini/test-long --heard exp/mini/heard/windows50/test-long \\
      --transcripts exp/mini/overlapping/seed1/decode_default/test-long --output exp/mini/figures/test-long.png

Without --recording it is the longest of the set.
"""

import argparse
import shlex
import sys
from pathlib import Path

from recording_figure import as_values, compare, draw_values

from espnet_ext.command import run_main
from espnet_ext.errors import InputError
from espnet_ext.multitalker.heard.hypotheses import group_by_speaker, read_jsonl
from espnet_ext.stitcher.long_recordings import stitched_times
from espnet_ext.tables.kept.facts import write_facts
from espnet_ext.text.turns import by_recording, read_turns, word_spans
from espnet_ext.work.plot_style import save_png


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", type=Path, required=True, help="folder with references.json")
    parser.add_argument("--heard", type=Path, required=True, help="folder with hypotheses.jsonl of the windows")
    parser.add_argument("--transcripts", type=Path, required=True, help="folder with transcripts.json")
    parser.add_argument("--recording", help="its id (default: the longest)")
    parser.add_argument("--output", type=Path, required=True, help="the PNG to write, and its data as JSON")
    args = parser.parse_args()
    references = by_recording(read_turns(args.set / "references.json"))
    ends = {name: max(turn.span[1] for turn in own) for name, own in references.items()}
    recording = args.recording or max(ends, key=lambda name: ends[name])
    grouped = group_by_speaker(read_jsonl(args.heard / "hypotheses.jsonl"))
    if recording not in ends or recording not in grouped:
        raise InputError(f"{recording}: not in {args.set} and {args.heard}: give the --recording of a test set")
    said, heard = {}, {}
    for turn in references[recording]:
        said.setdefault(turn.speaker, []).extend(zip(turn.words, word_spans(turn), strict=True))
    for turn in read_turns(args.transcripts / "transcripts.json"):
        if turn.recording == recording and turn.words:
            windows = grouped[recording].get(turn.speaker, ())
            heard[turn.speaker] = [(word.text, (word.start, word.end)) for word in stitched_times(turn.words, windows)]
    names = [*said, *sorted(heard.keys() - said.keys())]
    cuts = sorted({(item.start, item.end) for windows in grouped[recording].values() for item in windows})
    speakers = {name: compare(said.get(name, []), heard.get(name, [])) for name in names}
    values = as_values(recording, speakers, cuts, ends[recording])
    about = "Words of a recording by speaker, with start, end and kind of error; windows in seconds"
    write_facts(args.output.with_suffix(".json"), about, shlex.join(["local/plot_recording.py", *sys.argv[1:]]), values)
    save_png(draw_values(values), args.output, 150, data=values)
    print(f"{recording} -> {args.output}")


if __name__ == "__main__":
    run_main(main)
