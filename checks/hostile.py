"""Hostile checkpoints: mutated safetensors and GGUF files and configs, and what the program does with each.

    python -m checks.hostile --count 1600 --seed 0

Every case runs as ``onehead weights`` in a process of its own that is forked from this one. Counted are tracebacks,
answers that take more than five seconds of work, more than a gigabyte of memory, a refusal that is not one line, and
output that a terminal would obey. Ends with 1 when there is any of these.
"""

import argparse
import contextlib
import io
import json
import os
import random
import select
import signal
import struct
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from onehead.cli.main import run
from onehead.weights import survey

SECONDS, BYTES = 5.0, 1_000_000_000
PATIENCE = 4.0  # times the seconds of work that may pass on the wall: others use the machine too
TRACEBACK = 99
FAMILIES = {
    "bert": (("encoder.layer.{}.attention.self.query.weight", "encoder.layer.{}.attention.self.key.weight"), 1),
    "llama": (("model.layers.{}.self_attn.q_proj.weight", "model.layers.{}.self_attn.k_proj.weight"), 1),
    "gpt2": (("h.{}.attn.c_attn.weight",), -3),
    "gpt_neox": (("gpt_neox.layers.{}.attention.query_key_value.weight",), 3),
    "falcon": (("transformer.h.{}.self_attention.query_key_value.weight",), 3),
    "deepseek_v3": (("model.layers.{}.self_attn.kv_a_proj_with_mqa.weight",), 1),
}
KEYS = (
    "model_type", "num_attention_heads", "n_head", "num_key_value_heads", "num_kv_heads", "head_dim", "multi_query",
    "new_decoder_architecture", "text_config", "vision_config", "hidden_size",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 3, 1.5, 1e308, 10**30, 100_000, 2**63, "", "bert", "\x1b]0;x\x07", "\u202e", [],
    ["bert"], [[2]], {}, {"num_attention_heads": 2}, {"a": {"b": 1}}, "9" * 5000, int("9" * 4000),
)  # fmt: skip
NUMBERS: tuple[Any, ...] = (0, -1, 1, 7, 2**31, 2**40, 2**59, 2**63, 2**64, 1.5, 1e300, True, None, "4", [], {}, [4])


class Case:
    """A checkpoint before it is written: header, data, and the config beside it."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        family = rng.choice(list(FAMILIES))
        names, sections = FAMILIES[family]
        size, layers = rng.choice((2, 8, 16, 64)), rng.choice((1, 2, 12))
        shape = [size * abs(sections), size][:: -1 if sections < 0 else 1]
        values = np.random.default_rng(rng.randrange(2**32)).standard_normal(shape).astype("<f4").tobytes()
        self.header: dict[str, Any] = {}
        self.data = b""
        for layer in range(layers):
            for name in names:
                offsets = [len(self.data), len(self.data) + len(values)]
                self.header[name.format(layer)] = {"dtype": "F32", "shape": shape, "data_offsets": offsets}
                self.data += values
        self.config: Any = {"model_type": family, "num_attention_heads": 2, "hidden_size": size}
        self.text: bytes | None = None  # of the header, where it is no longer JSON of ours
        self.length: int | None = None
        self.config_text: bytes | None = None

    def entry(self) -> dict[str, Any]:
        """One entry of the header."""
        found = self.header[self.rng.choice(list(self.header))]
        return found if isinstance(found, dict) else {}

    def write(self, folder: Path) -> None:
        """Put both files into a folder."""
        text = json.dumps(self.header).encode() if self.text is None else self.text
        length = len(text) if self.length is None else self.length
        (folder / "model.safetensors").write_bytes((length % 2**64).to_bytes(8, "little") + text + self.data)
        config = json.dumps(self.config).encode() if self.config_text is None else self.config_text
        (folder / "config.json").write_bytes(config)

    @property
    def target(self) -> str:
        """What the program is pointed at, inside the folder."""
        return "."


class GgufCase:
    """A GGUF file before it is written: pieces of its header, each a number or a text, and its data."""

    target = "model.gguf"

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        size, layers = rng.choice((32, 64)), rng.choice((1, 3))
        kind, width = rng.choice(((0, 4.0), (1, 2.0), (30, 2.0), (8, 34 / 32), (2, 18 / 32)))  # plain, Q8_0, Q4_0
        pairs = [
            ("general.architecture", 8, "llama"),
            ("llama.attention.head_count", 4, 2),
            ("llama.attention.head_count_kv", 4, 1),
        ]
        names = [f"blk.{layer}.attn_{side}.weight" for layer in range(layers) for side in "qk"]
        self.pieces: list[tuple[str, Any]] = [("I", 3), ("Q", len(names)), ("Q", len(pairs))]
        for key, number, value in pairs:
            self.pieces += [("s", key), ("I", number), ("s", value) if number == 8 else ("I", value)]
        offset = 0
        for name in names:
            rows = size if name.endswith("q.weight") else size // 2
            self.pieces += [("s", name), ("I", 2), ("Q", size), ("Q", rows), ("I", kind), ("Q", offset)]
            offset += int(rows * size * width)
        self.data = rng.randbytes(offset)
        self.bytes: bytes | None = None

    def header(self) -> bytes:
        """The pieces as bytes; a text has its length before it, true or not."""
        out = [b"GGUF"]
        for kind, value in self.pieces:
            if kind == "s":
                text, claimed = value if isinstance(value, tuple) else (value, None)
                raw = text.encode("utf-8", errors="surrogatepass")
                out += [struct.pack("<Q", len(raw) if claimed is None else claimed), raw]
            else:
                out.append(struct.pack("<" + kind, value % 2 ** (32 if kind == "I" else 64)))
        return b"".join(out)

    def write(self, folder: Path) -> None:
        """Put the file into a folder."""
        head = self.header()
        whole = head + bytes(-len(head) % 32) + self.data if self.bytes is None else self.bytes
        (folder / self.target).write_bytes(whole)


# --- what is done to a case, each in place


def config_value(case: Case) -> None:
    """A wrong kind or size in the config."""
    case.config[case.rng.choice(KEYS)] = case.rng.choice(VALUES)


def config_whole(case: Case) -> None:
    """A config that is no object."""
    case.config = case.rng.choice(VALUES)


def config_bytes(case: Case) -> None:
    """A config that is no JSON, twice said, endless or of another encoding."""
    heads = b'"num_attention_heads": 2'
    deep = b"[" * 100_000
    case.config_text = case.rng.choice(
        (
            b"",
            b"{",
            b"\xff\xfe{}",
            b"{" + heads + b"," + heads + b"}",
            b'{"x":' + deep,
            b'{"x": NaN}',
            b"\x00" * 100,
            b"9" * 9000,
        )
    )


def shape(case: Case) -> None:
    """An impossible shape."""
    count = case.rng.choice((0, 1, 2, 2, 3, 17, 200))
    case.entry()["shape"] = case.rng.choice(
        ([case.rng.choice(NUMBERS) for _ in range(count)], case.rng.choice(NUMBERS))
    )


def offsets(case: Case) -> None:
    """Impossible offsets."""
    count = case.rng.choice((0, 1, 2, 2, 2, 3))
    case.entry()["data_offsets"] = [case.rng.choice(NUMBERS) for _ in range(count)]


def dtype(case: Case) -> None:
    """Another type of elements."""
    case.entry()["dtype"] = case.rng.choice(
        ("F16", "BF16", "F64", "I8", "F8_E4M3", "F4", "C64", "BOOL", "x", "", 5, None, [], {})
    )


def empty(case: Case) -> None:
    """Matrices without elements, of enormous other side."""
    for entry in case.header.values():
        entry["shape"], entry["data_offsets"] = [case.rng.choice((2**59, 0)), 0], [0, 0]
    case.data = b""


def renamed(case: Case) -> None:
    """Names that mean something elsewhere, are endless, or count layers strangely."""
    name = case.rng.choice(list(case.header))
    new = case.rng.choice(
        ("\x1b[2J", "x" * 100_000, "a." * 50_000, "../../x", "", "\u202e", "__metadata__", "0", "layers.999999.")
    )
    case.header[new + case.rng.choice((name, ""))] = case.header.pop(name)


def many(case: Case) -> None:
    """Very many tensors without bytes, or with one."""
    names = case.rng.choice(("encoder.layer.{}.attention.self.query.weight", "x{}"))
    end = len(case.data)
    for number in range(case.rng.choice((1000, 30_000))):
        case.header[names.format(number)] = {"dtype": "F32", "shape": [0, 4], "data_offsets": [end, end]}


def entry_whole(case: Case) -> None:
    """An entry that is none, or has other keys."""
    name = case.rng.choice(list(case.header))
    case.header[name] = case.rng.choice((None, 5, [], {}, "x", {"dtype": "F32"}, {**case.header[name], "x": 1}))


def metadata(case: Case) -> None:
    """Metadata of all kinds."""
    case.header["__metadata__"] = case.rng.choice(VALUES)


def header_bytes(case: Case) -> None:
    """A header that is no JSON."""
    deep = b"[" * 200_000
    case.text = case.rng.choice(
        (b"", b"{}", b"[]", b"null", b"{", b'{"x": ' + deep, deep, b"\xff" * 50, b'{"a":1,"a":2}', b"1" * 6000)
    )


def length(case: Case) -> None:
    """A wrong length of the header."""
    case.length = case.rng.choice((0, 1, 7, 2**31, 2**40, 2**63, 2**64 - 1, 100_000_001))


def bits(case: Case) -> None:
    """Some bits of the header turned over."""
    text = bytearray(json.dumps(case.header).encode())
    for _ in range(case.rng.choice((1, 3, 30))):
        text[case.rng.randrange(len(text))] ^= 1 << case.rng.randrange(8)
    case.text = bytes(text)


def cut(case: Case) -> None:
    """Data cut short, or more than there should be."""
    case.data = case.rng.choice((case.data[: len(case.data) // 2], case.data[:-1], case.data + b"x", b""))


def weights(case: Case) -> None:
    """Numbers that are none, or enormous, or all the same."""
    value = case.rng.choice((np.nan, np.inf, 3e38, 1e-45, 0.0, 1.0))
    case.data = np.full(len(case.data) // 4, value, "<f4").tobytes()


def noise(case: Case) -> None:
    """Any bits as weights."""
    case.data = case.rng.randbytes(len(case.data))


MUTATIONS: tuple[Callable[[Case], None], ...] = (
    config_value, config_value, config_value, config_whole, config_bytes, shape, offsets, dtype, empty, renamed, many,
    entry_whole, metadata, header_bytes, length, bits, bits, cut, weights, noise,
)  # fmt: skip


# --- the same for GGUF


def gguf_number(case: GgufCase) -> None:
    """A count, size, type or place that is wrong."""
    place = case.rng.choice([i for i, (kind, _) in enumerate(case.pieces) if kind != "s"])
    kind = case.pieces[place][0]
    case.pieces[place] = (
        kind,
        case.rng.choice((0, 1, 2, 3, 7, 8, 9, 12, 30, 255, 4096, 2**31, 2**40, 2**60, 2**64 - 1)),
    )


def gguf_text(case: GgufCase) -> None:
    """A name that means something elsewhere, or a length that is not its own."""
    place = case.rng.choice([i for i, (kind, _) in enumerate(case.pieces) if kind == "s"])
    text = case.rng.choice(
        ("\x1b[2J", "\u202e", "", "x" * 100_000, "general.alignment", "blk.0.attn_q.weight", "blk.999999.attn_q.weight")
    )
    case.pieces[place] = ("s", (text, case.rng.choice((None, None, 0, 2**31, 2**63))))


def gguf_array(case: GgufCase) -> None:
    """Metadata that are lists of lists, or endless."""
    values = [("I", 9)] * case.rng.choice((1, 5, 5000))
    case.pieces[3:3] = [
        ("s", "x"),
        *values,
        ("I", case.rng.choice((4, 8, 9, 99))),
        ("Q", case.rng.choice((0, 3, 2**40, 2**62))),
    ]
    case.pieces[2] = ("Q", 4)


def gguf_many(case: GgufCase) -> None:
    """Very many tensors or pairs."""
    count = case.rng.choice((1000, 30_000))
    more = [
        piece
        for i in range(count)
        for piece in (("s", f"blk.{i}.attn_q.weight"), ("I", 2), ("Q", 0), ("Q", 4), ("I", 0), ("Q", 0))
    ]
    case.pieces += more
    case.pieces[1] = ("Q", case.pieces[1][1] + count)


def gguf_bits(case: GgufCase) -> None:
    """Some bits of the header turned over."""
    head = bytearray(case.header())
    for _ in range(case.rng.choice((1, 3, 30))):
        head[case.rng.randrange(len(head))] ^= 1 << case.rng.randrange(8)
    case.bytes = bytes(head) + bytes(-len(head) % 32) + case.data


def gguf_cut(case: GgufCase) -> None:
    """A file cut short anywhere."""
    whole = case.header() + case.data
    case.bytes = whole[: case.rng.randrange(len(whole))]


GGUF: tuple[Callable[[GgufCase], None], ...] = (
    gguf_number, gguf_number, gguf_number, gguf_text, gguf_array, gguf_many, gguf_bits, gguf_bits, gguf_cut,
)  # fmt: skip


def flags(rng: random.Random) -> list[str]:
    """What else stands on the command line."""
    counts = [
        f"--{name}={rng.choice((1, 2, 3, 64, 100_000))}"
        for name in ("heads", "kv-heads", "head-dim")
        if rng.random() < 0.1
    ]
    little = (
        ["--no-fit"] if rng.random() < 0.8 else ["--layer=0", "--head=0"]
    )  # a fit of all heads is honest work of minutes
    return [*counts, *little, *(["--json"] if rng.random() < 0.3 else [])]


# --- one case in a process of its own


def child(words: list[str], out: Path) -> None:
    """Run the program; what it says goes into a file."""
    with out.open("w", encoding="utf-8", errors="backslashreplace") as file:
        said, told = io.StringIO(), io.StringIO()
        code = TRACEBACK
        try:
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(told):
                run(words)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        except BaseException:
            told.write(traceback.format_exc())
        json.dump([said.getvalue(), told.getvalue()], file)
    os._exit(code)


def watched(words: list[str], out: Path) -> tuple[int | None, float, int]:
    """Exit code (None: too slow), seconds of work, and bytes of memory at most."""
    process = os.fork()
    if process == 0:
        child(words, out)
    handle = os.pidfd_open(process)
    try:
        ended = bool(select.select([handle], [], [], PATIENCE * SECONDS)[0])
    finally:
        os.close(handle)
    if not ended:
        os.kill(process, signal.SIGKILL)
    _, status, used = os.wait4(process, 0)
    seconds = used.ru_utime + used.ru_stime
    code = os.waitstatus_to_exitcode(status) if ended and seconds <= SECONDS else None
    return code, seconds, used.ru_maxrss * 1024


def trouble(code: int | None, memory: int, out: Path) -> str:
    """What is wrong with the way a case ended; nothing if it is all right."""
    if code is None:
        return f"longer than {SECONDS:g} s"
    if memory > BYTES:
        return f"{memory / 1e9:.1f} GB"
    said, told = json.loads(out.read_text(encoding="utf-8"))
    if code == TRACEBACK or code < 0 or "Traceback" in told:
        return f"traceback, {told.strip().splitlines()[-1]}" if told else f"ended by signal {-code}"
    if any(not (letter.isprintable() or letter in "\n\t") for letter in said + told):
        return "text that a terminal would obey"
    if code not in (0, 1, 2) or (code == 2 and (said or told.count("\n") != 1)):
        return f"exit code {code} with {told.count(chr(10))} lines"
    return ""


def main() -> int:
    """Make and run the cases, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1600)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    codes: Counter[str] = Counter()
    bad: list[str] = []
    slowest, largest = 0.0, 0
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        warm = Case(random.Random(0))
        warm.write(folder)
        with contextlib.suppress(ValueError):
            survey(folder)  # loads everything before the first fork
        GgufCase(random.Random(0)).write(folder)
        with contextlib.suppress(ValueError):
            survey(folder / GgufCase.target)
        for number in range(asked.count):
            rng = random.Random(f"{asked.seed}-{number}")
            case: Any = GgufCase(rng) if number % 4 == 3 else Case(rng)
            kinds: Any = GGUF if isinstance(case, GgufCase) else MUTATIONS
            done = [rng.choice(kinds) for _ in range(rng.choice((1, 1, 2, 3)))]
            with contextlib.suppress(
                TypeError, ValueError, AttributeError, IndexError, KeyError
            ):  # one undid what another needs
                for mutation in done:
                    mutation(case)
            case.write(folder)
            words = ["weights", str(folder / case.target), *flags(rng)]
            code, seconds, memory = watched(words, folder / "said")
            slowest, largest = max(slowest, seconds), max(largest, memory)
            wrong = trouble(code, memory, folder / "said")
            codes[wrong.split(",")[0] or {0: "read", 1: "failed", 2: "refused"}[code or 0]] += 1
            if wrong:
                bad.append(f"case {number} ({', '.join(m.__name__ for m in done)}; {' '.join(words[2:])}): {wrong}")
    print(f"{asked.count} checkpoints: {', '.join(f'{count} {what}' for what, count in codes.most_common())}")
    print(f"slowest {slowest:.2f} s, most memory {largest / 1e6:.0f} MB")
    for line in bad:
        print(line)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
