"""Set-up of the lit suite: files are `.mlir` and `.test`, tools come from the
build's `bin` and from LLVM's. Features name what the host and the build have."""

import os

import lit.formats

config.name = "sextant"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs", "CMakeLists.txt", "lit.cfg.py", "lit.site.cfg.py"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.sextant_build, "test")

path = [os.path.join(config.sextant_build, "bin"), config.llvm_tools]
config.environment["PATH"] = os.pathsep.join(path + [config.environment["PATH"]])
config.environment["PYTHONPATH"] = os.path.join(config.sextant_build, "python")
# Kernels compiled by tests are not left in the user's cache.
config.environment["XDG_CACHE_HOME"] = os.path.join(config.test_exec_root, "cache")
for name in ("HOME", "OMP_NUM_THREADS", "OMP_WAIT_POLICY", "SEXTANT_SEED"):
    if name in os.environ:
        config.environment[name] = os.environ[name]

config.substitutions += [
    ("%python", config.python),
    ("%source", config.sextant_source),
    ("%build", config.sextant_build),
    ("%encodings", os.path.join(config.sextant_source, "dialects/Pos/Encodings")),
]


def cpu_flags():
    """Names of the host's instruction sets, as the kernel lists them."""
    try:
        with open("/proc/cpuinfo") as info:
            for line in info:
                if line.startswith("flags"):
                    return set(line.split(":", 1)[1].split())
    except OSError:
        pass
    return set()


flags = cpu_flags()
needs = {
    "avx2": {"avx2", "fma"},
    "avx512": {"avx512f", "avx512bw", "avx512dq", "avx512vl"},
    "avx512bf16": {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_bf16"},
    "amx": {"amx_tile", "amx_bf16"},
}
for feature, wanted in needs.items():
    if wanted <= flags:
        config.available_features.add(feature)
if config.enable_torch:
    config.available_features.add("torch")
if config.enable_python:
    config.available_features.add("python")
if config.has_libfuzzer:
    config.available_features.add("fuzzer")
