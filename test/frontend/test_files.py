"""Files that are written whole or not at all."""

import os
import stat

import pytest

from sextant.files import replace_file


@pytest.mark.parametrize("mask, mode", [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_a_file_is_as_private_as_it_was_or_as_others_are(tmp_path, mask, mode):
    """A checkpoint holds text that is held out, which may be nobody else's to read."""
    before = os.umask(mask)
    try:
        replace_file(tmp_path / "new", b"1")
        (tmp_path / "old").write_bytes(b"1")
        (tmp_path / "old").chmod(0o640)
        replace_file(tmp_path / "old", b"2")
        assert os.umask(mask) == mask
    finally:
        os.umask(before)
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("new", "old")]
    assert modes == [mode, 0o640] and (tmp_path / "old").read_bytes() == b"2"
    assert sorted(os.listdir(tmp_path)) == ["new", "old"]
