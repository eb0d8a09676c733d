"""Figures on disk."""

import pytest
from matplotlib.figure import Figure

from espnet_ext.work.plot_style import save_png


def test_png_is_whole_or_absent(tmp_path, monkeypatch):
    figure = Figure()
    figure.subplots().plot([0.0, 1.0])
    path = tmp_path / "new" / "figure.png"
    save_png(figure, path)
    before = path.read_bytes()
    assert before.startswith(b"\x89PNG")

    def fail(file, **_):
        file.write(b"half a figure")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(figure, "savefig", fail)
    with pytest.raises(OSError, match="No space"):
        save_png(figure, path)
    assert path.read_bytes() == before
    assert [item.name for item in path.parent.iterdir()] == ["figure.png"]
