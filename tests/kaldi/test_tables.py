import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from espnet_ext.errors import InputError
from espnet_ext.kaldi.tables import read_table, write_table


def put(tmp_path, content: bytes):
    path = tmp_path / "text"
    path.write_bytes(content)
    return path


def test_values_are_the_rest_of_the_line(tmp_path):
    path = put(tmp_path, "b two  words\r\na\t你 好\u3000\nc\nd x\u2028y".encode())
    assert list(read_table(path).items()) == [
        ("b", "two  words"),
        ("a", "你 好\u3000"),
        ("c", ""),
        ("d", "x\u2028y"),
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"a x\nb y\na z\n",
            r"text: id a comes twice: .*if the lines have no ids, begin each with one",
        ),
        (b"a x\n\nb y\n", r"text: line 2 has no id"),
        (b"a x\n b y\n", r"text: line 2 has no id"),
        (b"a x\nb \xff\n", r"text: line 2 is not UTF-8 \(byte 0xff\)"),
        (b"\xef\xbb\xbfa x\n", r"text: begins with a byte-order mark"),
        (b"", r"text: empty file"),
        (b" \n", r"text: empty file"),
    ],
)
def test_bad_tables_are_refused_by_file_and_id(tmp_path, content, message):
    with pytest.raises(InputError, match=message):
        read_table(put(tmp_path, content))


def test_missing_file_and_folder_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"none: no such file"):
        read_table(tmp_path / "none")
    with pytest.raises(InputError, match=r"is a folder"):
        read_table(tmp_path)


@pytest.mark.parametrize("table", [{}, {"": "x"}, {"a b": "x"}, {"a": "x\ny"}])
def test_what_cannot_be_a_table_is_not_written(tmp_path, table):
    path = put(tmp_path, b"a before\n")
    with pytest.raises(InputError):
        write_table(path, table)
    assert path.read_bytes() == b"a before\n"
    assert list(tmp_path.iterdir()) == [path]


def test_order_is_that_of_sort_in_the_c_locale(tmp_path):
    ids = ["b", "a-1", "a", "a_1", "B", "é", "你", "\U00020000", "\ue000", "10", "9"]
    write_table(tmp_path / "t", dict.fromkeys(ids, "x"))
    by_sort = subprocess.run(
        ["sort", str(tmp_path / "t")],
        env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        check=True,
    ).stdout
    assert (tmp_path / "t").read_bytes() == by_sort


WORD = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters=" \t\r\n"),
    min_size=1,
    max_size=5,
)


@given(
    st.dictionaries(
        WORD.filter(lambda key: not key.startswith("\ufeff")), WORD, min_size=1
    )
)
def test_written_tables_read_back(tmp_path_factory, table):
    path = tmp_path_factory.mktemp("table") / "text"
    write_table(path, table)
    assert list(read_table(path).items()) == sorted(table.items())
