"""Files as people have them are read to their true end, at their time, or refused in
one line that says why.
"""

from odd_files import CASES, fault


def test_odd_files(tmp_path):
    assert len(CASES) > 200 and len({case.name for case in CASES}) == len(CASES)
    wrong = {case.name: reason for case in CASES if (reason := fault(case, tmp_path))}
    assert not wrong
