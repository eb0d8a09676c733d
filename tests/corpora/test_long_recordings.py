"""The corpora of long recordings: what is read of their layouts, and what is refused by
name.
"""

import json
import re
import shutil
from pathlib import Path

import pytest
from bad_corpora import write_noise

from espnet_ext.corpora import checks, earnings22, rev16, spotify, tedlium
from espnet_ext.corpora.long_recordings import read_nlp
from espnet_ext.errors import InputError
from espnet_ext.kaldi.data_dir import read_data_dir
from espnet_ext.kaldi.tables import read_table
from espnet_ext.text.word_times import read_regions, read_word_times


def word(text: str, start: float, end: float, **more) -> dict:
    return {
        "startTime": f"{start:.3f}s",
        "endTime": f"{end:.3f}s",
        "word": text,
        **more,
    }


WORDS = [word("Hello", 0.1, 0.4), word("there,", 0.4, 0.9), word("world.", 1.2, 2.0)]
OVERLAP = [word("a", 0.0, 1.0), word("b", 0.5, 1.5)]


def write_podcast(
    corpus: Path, episode: str, words: list[dict], audio: bool = True
) -> Path:
    below = Path("4", "E", "show_4Exyz", episode)
    transcript = (
        corpus / "podcasts-no-audio-13GB" / "podcasts-transcripts" / f"{below}.json"
    )
    transcript.parent.mkdir(parents=True, exist_ok=True)
    results = [
        {"alternatives": [{"transcript": "x", "confidence": 0.9, "words": words[:2]}]},
        {"alternatives": [{}]},  # Google gives some without words
        {"alternatives": [{"words": words[2:]}]},
        {"alternatives": [{"words": [{**entry, "speakerTag": 1} for entry in words]}]},
    ]
    transcript.write_text(json.dumps({"results": results}))
    if audio:
        write_noise(
            corpus / "podcasts-audio" / below.with_suffix(".ogg"),
            3.0,
            rate=44100,
            channels=2,
        )
    metadata = corpus / "podcasts-no-audio-13GB" / "metadata.tsv"
    if not metadata.exists():
        metadata.write_text("show_uri\tepisode_name\tepisode_filename_prefix\n")
    with metadata.open("a") as file:
        file.write(f'spotify:show:4Exyz\t"A ""name"""\t{episode}\n')
    return transcript


def test_spotify(tmp_path):
    for episode in ("1b", "1a"):
        write_podcast(tmp_path / "corpus", episode, WORDS)
    data = spotify.prepare_spotify(tmp_path / "corpus", tmp_path / "out")["train"]
    assert read_data_dir(tmp_path / "out" / "train") == data
    assert data.utterances == ["1a", "1b"] and data.text["1a"] == "Hello there, world."
    assert (
        data.utt2spk["1a"] == "1a"
        and data.utt2lang["1a"] == "en"
        and data.utt2dur["1a"] == "3"
    )
    table = read_table(tmp_path / "out" / "spotify_words_train.scp")
    words = read_word_times("1b", table["1b"])
    assert [
        (word.text, round(word.start, 3), round(word.end, 3)) for word in words
    ] == [("Hello", 0.1, 0.4), ("there,", 0.4, 0.9), ("world.", 1.2, 2.0)]


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        ([{"word": "a"}], "bad.json.*no times"),
        ([], "bad.json.*no word"),
        ([word("late", 9.0, 9.5)], "bad: .*beyond the recording's end"),
        (None, "bad lasts 0.375 s, less than 0.5 s"),
    ],
)
def test_spotify_refuses_or_drops(tmp_path, words, fault, capsys):
    write_podcast(tmp_path / "corpus", "good", WORDS)
    write_podcast(tmp_path / "corpus", "bad", WORDS if words is None else words)
    if words is None:
        write_noise(next((tmp_path / "corpus").rglob("bad.ogg")), 0.375)
    with pytest.raises(InputError, match=fault):
        spotify.prepare_spotify(tmp_path / "corpus", tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == [
        "spotify_train_faults.txt"
    ]
    data = spotify.prepare_spotify(
        tmp_path / "corpus", tmp_path / "out", skip_faulty=0.5
    )["train"]
    assert data.utterances == ["good"]
    assert list(read_table(tmp_path / "out" / "spotify_words_train.scp")) == ["good"]
    assert "left out: 1 of 2 in train" in capsys.readouterr().err


def test_spotify_in_three_archives(tmp_path):
    """As the archives unpack, each with a part of the shows; audio and the list lie
    elsewhere.
    """
    corpus = tmp_path / "corpus"
    for archive in ("0to2", "3to5", "6to7"):
        for number in range(3):
            transcript = write_podcast(corpus, f"{archive}n{number}", WORDS)
            home = (
                corpus
                / f"podcasts-transcripts-{archive}"
                / "spotify-podcasts-2020"
                / "podcasts-transcripts"
            )
            target = home / archive[0] / "A" / f"show_{archive}" / transcript.name
            target.parent.mkdir(parents=True, exist_ok=True)
            transcript.rename(target)
    shutil.rmtree(corpus / "podcasts-no-audio-13GB" / "podcasts-transcripts")
    data = spotify.prepare_spotify(corpus, tmp_path / "out")["train"]
    assert len(data.text) == 9


@pytest.mark.parametrize("kind", ["json", "ogg"])
def test_an_episode_in_two_archives_or_shows_must_be_the_same(kind, tmp_path, capsys):
    corpus = tmp_path / "corpus"
    transcript = write_podcast(corpus, "1a", WORDS)
    (audio,) = corpus.rglob("1a.ogg")
    first, folder = (
        (transcript, "podcasts-transcripts")
        if kind == "json"
        else (audio, "podcasts-audio")
    )
    copy = corpus / "second" / folder / "4" / "E" / "show_4Eabc" / first.name
    copy.parent.mkdir(parents=True)
    shutil.copy(first, copy)
    assert spotify.prepare_spotify(corpus, tmp_path / "out")["train"].utterances == [
        "1a"
    ]
    assert "copies of files ignored, 1 times" in capsys.readouterr().err
    copy.write_bytes(copy.read_bytes() + b" ")
    with pytest.raises(
        InputError, match="1a comes twice, and the files differ: "
    ) as refused:
        spotify.prepare_spotify(corpus, tmp_path / "out")
    assert str(first) in str(refused.value) and str(copy) in str(refused.value)


@pytest.mark.parametrize("value", ["nans", "-1.0s", "0.4", 0.4])
def test_the_word_whose_time_cannot_be_is_named(value, tmp_path):
    words = [WORDS[0], WORDS[1] | {"endTime": value}, WORDS[2]]
    transcript = write_podcast(tmp_path / "corpus", "bad", words)
    with pytest.raises(
        InputError,
        match=rf"bad.json: .*word 2, 'there,', has .*endTime {value!r}: download it",
    ):
        spotify.read_transcript(transcript)


def test_a_byte_order_mark_is_no_part_of_a_list_or_transcript(tmp_path):
    transcript = write_podcast(tmp_path / "corpus", "1a", WORDS)
    (tmp_path / "metadata.tsv").write_text("episode_filename_prefix\tshow_uri\n1a\tx\n")
    (tmp_path / "a.nlp").write_text(
        NLP.replace("speaker|token", "token|speaker").replace("1|Good", "Good|1")
    )
    for path in (transcript, tmp_path / "metadata.tsv", tmp_path / "a.nlp"):
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert (
        spotify.read_metadata(tmp_path / "metadata.tsv") == {"1a"}
        and len(spotify.read_transcript(transcript)) == 3
    )
    assert read_nlp(tmp_path / "a.nlp").text.startswith("Good")


def test_spotify_files_that_do_not_fit(tmp_path):
    corpus = tmp_path / "corpus"

    def refused(message: str) -> None:
        with pytest.raises(InputError, match=message):
            spotify.prepare_spotify(corpus, tmp_path / "out")

    refused("no such corpus folder")
    write_podcast(corpus, "good", WORDS)
    mute = write_podcast(corpus, "mute", WORDS, audio=False)
    refused("episode mute has no audio")
    audio = corpus / "podcasts-audio" / "4" / "E" / "show_4Exyz" / "mute.ogg"
    audio.write_bytes(b"OggS no more")
    refused("corrupt audio .* of mute")
    write_noise(audio, 3.0)
    mute.write_text("{}")
    refused("mute.json: not a transcript")
    mute.unlink()
    refused("episode mute of metadata.tsv has no transcript")


NLP = """\
speaker|token|ts|endTs|prepunctuation|punctuation|case
1|Good|||||UC
1|morning||||,|LC
2|<laugh>|||||
2|Ahyiana||||.|UC
"""


def test_nlp_by_the_header(tmp_path):
    (tmp_path / "a.nlp").write_text(NLP)
    assert read_nlp(tmp_path / "a.nlp").text == "Good morning, Ahyiana."
    for text, fault in (
        ("word|speaker\na|1\n", "no field 'token'"),
        (NLP + "1|x\n", "line 6 has 2 fields"),
    ):
        (tmp_path / "b.nlp").write_text(text)
        with pytest.raises(InputError, match=fault):
            read_nlp(tmp_path / "b.nlp")


def test_earnings22(tmp_path, capsys):
    def prepare(**options):
        return earnings22.prepare_earnings22(tmp_path, tmp_path / "out", **options)[
            "test"
        ]

    transcripts = tmp_path / "transcripts" / "nlp_references"
    transcripts.mkdir(parents=True)
    (tmp_path / "metadata.csv").write_text(
        "File ID,Ticker Symbol\n44,AB\n2020-Call,CD\n"
    )
    for call, rate in (("44", 24000), ("2020-Call", 11025)):
        write_noise(tmp_path / "media" / f"{call}.mp3", 3.0, rate)
        (transcripts / f"{call}.nlp").write_text(NLP)
    data = prepare()
    assert (
        data.utterances == ["2020-Call", "44"]
        and data.text["44"] == "Good morning, Ahyiana."
    )
    assert re.search(
        r"warning: .*metadata.csv: lists 2 of the 125 calls of Earnings-22",
        capsys.readouterr().out,
    )
    prepare(complete=False)
    assert "warning" not in capsys.readouterr().out
    second = transcripts / "sub" / "44.nlp"  # two of one name must be the same
    second.parent.mkdir()
    second.write_text(NLP)
    prepare()
    second.write_text(NLP.replace("Ahyiana", "Ariana"))
    with pytest.raises(
        InputError,
        match="44 comes twice, and the files differ: .*44.nlp and .*sub/44.nlp",
    ):
        prepare()
    second.unlink()
    (transcripts / "44.nlp").unlink()
    with pytest.raises(InputError, match="no transcript of 44"):
        prepare()
    (tmp_path / "media" / "44.mp3").rename(tmp_path / "media" / "45.mp3")
    (transcripts / "45.nlp").write_text(NLP)
    with pytest.raises(
        InputError, match=r"call 45 is not in metadata.csv \(.*45.mp3\).*44 has neither"
    ):
        prepare()
    assert prepare(skip_faulty=0.7).utterances == ["2020-Call"]


@pytest.mark.parametrize(
    "transcripts", ["verbatim_transcripts/nlp_references", "verbatim"]
)
def test_rev16(tmp_path, transcripts, capsys):
    (tmp_path / transcripts).mkdir(parents=True)
    for number in (3, 5, 32):  # 5 is none of the sixteen
        write_noise(tmp_path / "media" / f"{number}.mp3", 3.0)
        (tmp_path / transcripts / f"{number}.nlp").write_text(NLP)
    with pytest.raises(InputError, match="rev16-04 has neither"):
        rev16.prepare_rev16(tmp_path, tmp_path / "out")
    (tmp_path / "podcasts.csv").write_text(
        'File number,Show Title\n3,"Read, The"\n5,Other\n32,Last\n'
    )
    data = rev16.prepare_rev16(tmp_path, tmp_path / "out")["test"]
    assert data.utterances == ["rev16-03", "rev16-32"]
    assert re.search(
        r"warning: .*podcasts.csv: lists 2 of the 16 episodes, "
        r"without 4, 9, 10, .*29: error rates are of these alone",
        capsys.readouterr().out,
    )
    rev16.prepare_rev16(tmp_path, tmp_path / "out", complete=False)
    assert "warning" not in capsys.readouterr().out
    (tmp_path / "podcasts.csv").write_text("File number,Show Title\n5,Other\n")
    with pytest.raises(
        InputError, match="podcasts.csv: it lists none of the 16 episodes"
    ):
        rev16.prepare_rev16(tmp_path, tmp_path / "out")


STM = """\
;; a comment
Talk_2012 1 inter_segment_gap 0 0.50 <o,,unknown> ignore_time_segment_in_scoring
Talk_2012 1 Talk 1.70 2.10 <o,f0,male> we 're here
Talk_2012 1 Talk 0.50 1.20 <o,f0,male> hello <unk> {NOISE} world
Talk_2012 1 inter_segment_gap 2.10 3.00 <o,,unknown> ignore_time_segment_in_scoring
"""


def test_tedlium(tmp_path):
    corpus = tmp_path / "TEDLIUM_release-3"
    for part in tedlium.PARTS:
        write_noise(corpus / "legacy" / part / "sph" / "Talk_2012.sph", 3.0)
        (corpus / "legacy" / part / "stm").mkdir()
        (corpus / "legacy" / part / "stm" / "Talk_2012.stm").write_text(STM)
    data = tedlium.prepare_tedlium(tmp_path, tmp_path / "out")
    assert data["test"].text["Talk_2012"] == "hello world we're here"
    regions = read_regions(tmp_path / "out" / "tedlium_ignored_test.txt")
    assert regions == {"Talk_2012": [(0.0, 0.5), (2.1, 3.0)]}
    stm = corpus / "legacy" / "dev" / "stm" / "Talk_2012.stm"
    stm.write_text("Talk_2012 1 Talk 2.0 1.0 <o,f0,male> backwards\n")
    with pytest.raises(
        InputError, match="line 1: from 2.0 to 1.0 s is not a time span"
    ):
        tedlium.prepare_tedlium(corpus, tmp_path / "out")
    stm.unlink()
    with pytest.raises(InputError, match="no transcript of Talk_2012"):
        tedlium.prepare_tedlium(corpus, tmp_path / "out")
    write_noise(corpus / "legacy" / "dev" / "sph" / "Other.sph", 3.0)
    (corpus / "legacy" / "dev" / "stm" / "Other.stm").write_text(
        STM.replace("Talk_2012", "Other")
    )
    (corpus / "legacy" / "dev" / "stm" / "._Other.stm").write_text("\x00")
    dev = tedlium.prepare_tedlium(corpus, tmp_path / "kept", skip_faulty=0.5)["dev"]
    assert dev.utterances == ["Other"]
    assert list(read_regions(tmp_path / "kept" / "tedlium_ignored_dev.txt")) == [
        "Other"
    ]
    with pytest.raises(InputError, match="no sph and stm"):
        tedlium.prepare_tedlium(corpus, tmp_path / "out", parts=["train"])


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("t 1 t 0 1 hello world", "hello world"),
        ("t 1 t 0 1 <F0_M> hello world", "hello world"),
        ("t 1 t 0 1 <o, f0, male> hello world", "hello world"),
        ("t 1 t 0 1 <unk> hello world", "hello world"),
        ("t 1 t 0 1 <o,f0,male> the(2) world 's(3) end (t-0001)", "the world's end"),
        ("t 1 t 0 1 <o,f0,male>", ""),
    ],
)
def test_labels_and_pronunciations_of_an_stm(line, text, tmp_path):
    (tmp_path / "t.stm").write_text(line + "\n")
    assert tedlium.read_stm(tmp_path / "t.stm").text == text


def test_an_stm_of_another_talk_is_refused(tmp_path):
    """By the name in its lines, or because it ends after the audio; gaps that scoring
    ignores may.
    """
    part = tmp_path / "legacy" / "dev"
    write_noise(part / "sph" / "Talk.sph", 3.0)
    (part / "stm").mkdir()
    stm = part / "stm" / "Talk.stm"
    stm.write_text(
        "Talk 1 Talk 0 1 <o,f0,male> hello\nOther 1 Other 1 2 <o,f0,male> world\n"
    )
    with pytest.raises(
        InputError, match="Talk.stm: it has a line of the talk Other, and is named Talk"
    ):
        tedlium.prepare_tedlium(tmp_path, tmp_path / "out", parts=["dev"])
    stm.write_text(
        "Talk 1 Talk 0 1 <o,f0,male> hello\nTalk 1 Talk 2.9 3.6 <o,f0,male> world\n"
    )
    with pytest.raises(
        InputError, match=r"Talk: its transcript ends at 3.6 s, its audio at 3.00 s"
    ):
        tedlium.prepare_tedlium(tmp_path, tmp_path / "out", parts=["dev"])
    gap = "Talk 1 inter_segment_gap 3.4 9 <o,,unknown> ignore_time_segment_in_scoring\n"
    stm.write_text(stm.read_text().replace("3.6", "3.4") + gap)
    assert (
        tedlium.prepare_tedlium(tmp_path, tmp_path / "out", parts=["dev"])["dev"].text[
            "Talk"
        ]
        == "hello world"
    )


def test_spotify_drops_regions_of_overlapping_words(tmp_path):
    """Limit and messages are those of recordings with a ctm, see test_audio.py."""
    write_podcast(tmp_path / "corpus", "bad", [*OVERLAP, word("world.", 1.6, 2.0)])
    dropped = tmp_path / "out" / "spotify_train_dropped.txt"
    with pytest.raises(InputError, match=f"all regions: {dropped}.: at most 2 % "):
        spotify.prepare_spotify(tmp_path / "corpus", tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == [dropped.name]
    spotify.prepare_spotify(tmp_path / "corpus", tmp_path / "out", skip_faulty=0.9)
    read = read_word_times(
        "bad", read_table(tmp_path / "out" / "spotify_words_train.scp")["bad"]
    )
    assert [word.text for word in read] == ["<dropped>", "world."]
    assert list(read_regions(dropped)) == ["bad"]


def test_what_a_link_leads_to_is_not_read_to_compare(tmp_path, monkeypatch):
    """A corpus of terabytes may be reached by two ways."""
    audio = Path(write_noise(tmp_path / "audio" / "1a.ogg")).parent
    (tmp_path / "again").symlink_to(audio, target_is_directory=True)
    monkeypatch.setattr(checks.filecmp, "cmp", None)
    faults = checks.Faults(tmp_path, tmp_path / "faults.txt")
    found = checks.find_files_by_id(
        [audio, tmp_path / "again"], "*.ogg", "train", faults
    )
    assert list(found) == ["1a"] and not faults.found
