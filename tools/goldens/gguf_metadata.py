"""Reads the metadata of a GGUF file (no tensors) into a dict; for the scripts that make goldens."""

import struct

SCALARS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
STRING, ARRAY = 8, 9


def read_metadata(path):
    with open(path, "rb") as file:
        magic, _version, _tensors, keys = struct.unpack("<4sIQQ", file.read(24))
        assert magic == b"GGUF", f"{path}: no GGUF file"

        def scalar(code):
            return struct.unpack("<" + code, file.read(struct.calcsize(code)))[0]

        def string():
            return file.read(scalar("Q")).decode("utf-8")

        def value(kind):
            if kind == STRING:
                return string()
            if kind == ARRAY:
                item, count = scalar("I"), scalar("Q")
                if item == STRING:
                    return [string() for _ in range(count)]
                code = SCALARS[item]
                return list(
                    struct.unpack(f"<{count}{code}", file.read(count * struct.calcsize(code)))
                )
            return scalar(SCALARS[kind])

        metadata = {}
        for _ in range(keys):
            key = string()
            metadata[key] = value(scalar("I"))
        return metadata
