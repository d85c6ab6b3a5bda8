#!/usr/bin/env python3
"""Prints what the installed open-webui needs to run here, one requirement a line, for pip -r.

Left out is what only its own embeddings, reranking, speech and document reading use, all of it
imported when first used: torch and its kin are most of the package's gigabytes.
"""
import importlib.metadata
import re

UNUSED = {
    "accelerate",
    "einops",
    "faster-whisper",
    "onnxruntime",
    "opencv-python-headless",
    "pandas",
    "pyarrow",
    "rapidocr",
    "sentence-transformers",
    "sentencepiece",
    "soundfile",
    "transformers",
}


def main():
    for requirement in importlib.metadata.requires("open-webui"):
        name = re.match(r"[\w.-]+", requirement)[0].lower()
        if "extra ==" not in requirement and name not in UNUSED:
            print(requirement)


if __name__ == "__main__":
    main()
