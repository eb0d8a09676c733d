"""egs/spotify_longctx/run.sh at scale smoke: Table 1. In a file of its own, since it shares no run with other tests."""

from runs import cells_of, smoke_run


def test_table_1_measures_and_trains_nothing(tmp_path):
    smoke_run("spotify_longctx", "--table", "1", folder=tmp_path)
    rows = cells_of("spotify_longctx", tmp_path)
    assert not list((tmp_path / "exp").rglob("config.yaml")) and not list((tmp_path / "data").glob("*/text"))
    minutes = {name: cells["minutes"].here.value for name, cells in rows.items()}
    assert minutes["Conformer"] < minutes["Conformer with flash"] < minutes["FastConformer with flash"]
    assert minutes["FastConformer"] <= minutes["FastConformer with flash"]
    assert [cells["minutes"].paper for cells in rows.values()] == [9, 23, 18, 70]
    assert all(cells["frames_per_second"].here.value > 0 for cells in rows.values())
