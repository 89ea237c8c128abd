from __future__ import annotations

import subprocess
import sys

from kokoro_server.engine import vocab
from tests import tiny_model
from tests.engine.rows import SENTENCES


def test_ids_are_those_of_kmodel() -> None:
    assert dict(vocab.ids()) == tiny_model.build().vocab
    assert vocab.size() == vocab.config()["n_token"]


def test_tokenize_keeps_order_and_leaves_out_what_is_unknown() -> None:
    known = vocab.ids()
    assert vocab.tokenize("hə¿l") == (known["h"], known["ə"], known["l"])
    assert vocab.tokenize("") == ()
    assert vocab.unknown("hə¿l¿7") == {"¿", "7"}
    assert vocab.unknown("") == set()


def test_real_phonemes_are_all_known() -> None:
    for sentence in SENTENCES:
        assert vocab.unknown(sentence["phonemes"]) == set()
        assert len(vocab.tokenize(sentence["phonemes"])) == len(sentence["phonemes"])


def test_vocabulary_voices_and_rows_import_no_torch() -> None:
    modules = "from kokoro_server import voices; from kokoro_server.engine import vocab, rows, protocol"
    code = f"import sys; {modules}; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
