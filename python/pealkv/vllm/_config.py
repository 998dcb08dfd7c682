# SPDX-License-Identifier: Apache-2.0
"""What the user says, what the engine is, and whether the two go together.

Whatever changes the bytes of a value is in its keys' space: the model and its weights, the type and
layout of the cache, the ranks, the engine's hash and its seed, the user's salt.
"""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator
from typing import Any, Optional

from pealkv import keys

_SIZES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SAMPLES = 16
_SAMPLE_BYTES = 4096
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf")


def size(text: Any) -> int:
    m = re.fullmatch(r"(\d+)([KMGT]?)", str(text))
    if not m:
        raise ValueError(f"{text!r}, expected a size, as in 2G")
    return int(m[1]) * _SIZES[m[2]]


@dataclasses.dataclass(frozen=True)
class Options:
    """kv_connector_extra_config."""

    uri: str
    """Of pealkv.open(): "spawn:~/.cache/pealkv?dram=8G&ssd=100G", "vfu:/run/peal"."""
    value_tokens: int = 256
    """Tokens in one value; a multiple of the engine's blocks."""
    load: str = "auto"
    """"auto": what beats computing it; "always", "never"."""
    save: bool = True
    salt: str = ""
    """Another one never meets these values. A request's own cache_salt counts besides."""
    revision: str = ""
    """Of the weights; "": found out, see weights()."""
    timeout_s: float = 2.0
    """Of each call of the daemon, and of a look-up with its loads after the first answer."""
    save_wait_s: float = 0.5
    """How long a save may wait for room, and the engine's blocks with it."""
    load_bytes: int = 2 << 30
    """Host memory for values on their way in; bounds what one prompt can get at once."""
    save_bytes: int = 1 << 30
    """On their way out."""
    threads: int = 4
    """That move values."""

    @classmethod
    def of(cls, extra: dict[str, Any]) -> Options:
        """Raises ValueError: which option, and what was expected."""
        given = dict(extra)
        for name in ("load_bytes", "save_bytes"):
            if name in given:
                try:
                    given[name] = size(given[name])
                except ValueError as e:
                    raise ValueError(f"kv_connector_extra_config: {name} is {e}") from None
        fields = {f.name: f for f in dataclasses.fields(cls)}
        for name, value in given.items():
            if name not in fields:
                raise ValueError(
                    f"kv_connector_extra_config: {name!r} isn't known, expected "
                    + ", ".join(sorted(fields))
                )
            want = {"str": (str,), "int": (int,), "bool": (bool,), "float": (int, float)}
            kinds = want[str(fields[name].type)]
            if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
                raise ValueError(
                    f"kv_connector_extra_config: {name} is {value!r}, expected {fields[name].type}"
                )
        if not given.get("uri"):
            raise ValueError(
                "kv_connector_extra_config: uri is missing, expected where the daemon is, as in "
                "spawn:~/.cache/pealkv?dram=8G"
            )
        options = cls(**given)
        if options.load not in ("auto", "always", "never"):
            raise ValueError(
                f"kv_connector_extra_config: load is {options.load!r}, expected auto, always or "
                "never"
            )
        for name in ("value_tokens", "timeout_s", "load_bytes", "save_bytes", "threads"):
            if getattr(options, name) <= 0:
                raise ValueError(f"kv_connector_extra_config: {name} isn't more than 0")
        return options


def check(vllm_config: Any, kv_cache_config: Any, options: Options) -> int:
    """Blocks in a value.

    Raises:
        ValueError: a kind of model, or a way to run it, that this connector isn't for, by name.
    """
    parallel, cache = vllm_config.parallel_config, vllm_config.cache_config
    refused = {
        "pipeline parallelism": parallel.pipeline_parallel_size > 1,
        "decode context parallelism": getattr(parallel, "decode_context_parallel_size", 1) > 1,
        "prefill context parallelism": getattr(parallel, "prefill_context_parallel_size", 1) > 1,
        "speculative decoding": vllm_config.speculative_config is not None,
        "prefix caching switched off": not cache.enable_prefix_caching,
        "KV scales calculated at run time": bool(getattr(cache, "calculate_kv_scales", False)),
        "a kv_role other than kv_both": vllm_config.kv_transfer_config.kv_role != "kv_both",
    }
    groups = kv_cache_config.kv_cache_groups if kv_cache_config is not None else []
    refused["a model with several KV cache groups (hybrid)"] = len(groups) > 1
    for group in groups:
        spec = group.kv_cache_spec
        for one in getattr(spec, "kv_cache_specs", {"": spec}).values():
            kind = type(one).__name__
            # A sliding window among layers without one: vLLM keeps all tokens of both, "full".
            if kind != "FullAttentionSpec":
                refused[f"a KV cache of kind {kind} (MLA, windows alone, state space)"] = True
            if getattr(one, "attention_chunk_size", None) is not None:
                refused["chunked attention"] = True
    found = [what for what, is_so in refused.items() if is_so]
    if found:
        raise ValueError(f"PealConnector doesn't support: {'; '.join(found)}")
    block = cache.block_size
    if groups:
        block = groups[0].kv_cache_spec.block_size
    if options.value_tokens % block:
        raise ValueError(
            f"kv_connector_extra_config: value_tokens is {options.value_tokens}, expected a "
            f"multiple of the engine's block size, {block}"
        )
    return int(options.value_tokens // block)


def _sample(path: str) -> bytes:
    """A digest of a file's size and of parts of it, the first 64 KiB among them."""
    size = os.path.getsize(path)
    h = hashlib.blake2b(str(size).encode(), digest_size=16)
    with open(path, "rb") as f:
        h.update(f.read(1 << 16))
        for i in range(_SAMPLES):
            f.seek(size * i // _SAMPLES)
            h.update(f.read(_SAMPLE_BYTES))
        f.seek(max(0, size - _SAMPLE_BYTES))
        h.update(f.read())
    return h.digest()


def _file(path: str) -> bytes:
    return f"{os.path.basename(path)} {os.stat(path).st_mtime_ns} ".encode() + _sample(path)


def weights(model_config: Any, load_format: str) -> str:
    """What says which weights these are: the commit of a hub's model; of a file or a folder its
    weight files, by name, size, time of change and samples; of random ones the seed.

    Raises:
        ValueError: nothing says so. A name or a branch doesn't: what is behind it may change, and
            another model's values would be met.
    """
    if str(load_format).endswith("dummy"):
        return f"dummy:{model_config.seed}"
    path = model_config.model
    files = [path] if os.path.isfile(path) else []
    if os.path.isdir(path):
        files = [os.path.join(path, n) for n in sorted(os.listdir(path)) if n.endswith(_WEIGHTS)]
    if files:
        h = hashlib.blake2b(digest_size=16)
        for at in files:
            h.update(_file(at))
        return f"files:{h.hexdigest()}"
    for commit in (getattr(model_config.hf_config, "_commit_hash", None), model_config.revision):
        if commit and re.fullmatch(r"[0-9a-f]{40}", str(commit)):
            return str(commit)
    raise ValueError(
        f"kv_connector_extra_config: revision is missing: {path} (revision {model_config.revision})"
        " says neither by files nor by a commit which weights these are"
    )


def _config_digest(model_config: Any) -> str:
    """Of the model's configuration as it is used, overrides included."""
    config = dict(model_config.hf_config.to_dict())
    for name in ("_name_or_path", "transformers_version", "_commit_hash"):
        config.pop(name, None)
    parts = [config, str(model_config.dtype), model_config.quantization, model_config.max_model_len]
    if not config.get("rope_scaling") and not config.get("rope_parameters"):
        parts.pop()  # only a scaled rotation may depend on the longest prompt
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _links(path: str) -> Iterator[os.stat_result]:
    """Those that are followed on the way to a path, each itself."""
    at, todo, nr = "/", os.path.abspath(path).split("/")[1:], 0
    while todo:
        name = todo.pop(0)
        if name == "..":
            at = os.path.dirname(at)
        if name in ("", ".", ".."):
            continue
        found = os.lstat(os.path.join(at, name))
        if not stat.S_ISLNK(found.st_mode):
            at = os.path.join(at, name)
            continue
        nr += 1
        if nr > 40:  # as many as the kernel follows
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        yield found
        target = os.readlink(os.path.join(at, name))
        at = "/" if target.startswith("/") else at
        todo = target.split("/") + todo


class Adapters:
    """Which LoRA weights a request is computed with. One thread.

    The engine's hash of a block has an adapter's name and its path, not what lies there, and the
    engine reads that once for each lora_int_id, at a time of its own. So what lies there is known
    only of a folder which, with its files and the links to it, hasn't changed since before the
    engine began, and of a number that has stood for one folder. Else nobody can say which weights
    the engine has: such requests are computed, and not kept. (A folder above it that is renamed
    between the engine's reading and the first request isn't noticed.)
    """

    def __init__(self, began: float) -> None:
        self._began = began - 1  # a file system's clock is coarser
        self._places: dict[object, tuple[int, int]] = {}
        self._known: dict[tuple[int, int], bytes] = {}

    def of(self, lora: Any) -> Optional[bytes]:
        """b"" for no adapter; None: not known which."""
        if lora is None:
            return b""
        folder = str(lora.lora_path)
        try:
            there = os.stat(folder)
            place = (there.st_dev, there.st_ino)
            # Another one under a number or a path: for good.
            for name in (int(lora.lora_int_id), folder):
                if self._places.setdefault(name, place) != place:
                    self._places[name] = (0, 0)
                    return None
            paths = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
            seen = [there, *(os.stat(path) for path in paths), *_links(folder)]
            is_old = max(s.st_ctime for s in seen) < self._began
            if not is_old or getattr(lora, "load_inplace", False):
                return None
            if place not in self._known:
                h = hashlib.blake2b(digest_size=16)
                for path in filter(os.path.isfile, paths):
                    h.update(_file(path))
                self._known[place] = h.digest()
        except OSError:
            return None
        kind = b"3d" if getattr(lora, "is_3d_lora_weight", False) else b""
        return self._known[place] + kind


class Identity:
    """Of an engine, without what only the worker knows. Made once: it reads files."""

    def __init__(self, vllm_config: Any, options: Options) -> None:
        model = vllm_config.model_config
        found = options.revision or weights(model, vllm_config.load_config.load_format)
        self._model = str(model.model)
        self._revision = f"{found},config={_config_digest(model)}"
        if vllm_config.lora_config is not None:
            self._revision += f",lora={getattr(vllm_config.lora_config, 'lora_dtype', None)}"
        self._hash = str(vllm_config.cache_config.prefix_caching_hash_algo)
        self._cache_dtype = str(vllm_config.cache_config.cache_dtype)
        self._options = options
        parallel = vllm_config.parallel_config
        self._ranks = int(parallel.tensor_parallel_size)
        self._rank = int(parallel.rank) % self._ranks

    def space(self, layout: str, dtype: str, seed: bytes, epoch: bytes) -> keys.Space:
        return keys.Space(
            model=self._model,
            revision=self._revision,
            dtype=f"{dtype},{self._cache_dtype}",
            layout=layout,
            block_tokens=self._options.value_tokens,
            tp_size=self._ranks,
            tp_rank=self._rank,
            hash=self._hash,
            seed=seed,
            salt=self._options.salt.encode() + (b"\0" + epoch if epoch else b""),
        )
