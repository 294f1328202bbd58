"""llama.cpp's own server with a tiny random vision model. Run by the interpreter of an environment with both.

Arguments: a folder for the model's files, the size of the context, "images" or "text", a key or "", and "words" or
"bytes": whether the model likes to end texts at once, or to write bytes that are no text. Serves on a free port until
its standard input ends; prints its address.
"""

from __future__ import annotations

import sys
from pathlib import Path

import gguf
import numpy as np
import xllamacpp

WIDTH, INNER, HEADS = 64, 128, 4
IMAGE, PATCH, IMAGE_WIDTH, IMAGE_LAYERS = 28, 14, 32, 1
LETTERS = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 {}[]":,.-_\n\u2581'
LIKED = {'"': 1.2, "}": 0.4, ",": 0.4, ":": 0.4, "{": 0.4, " ": -3.0, "\n": -3.0, "\u2581": -3.0}
TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant: "
RANDOM = np.random.default_rng(0)


def some(*shape: int) -> np.ndarray:
    return (RANDOM.standard_normal(shape) * 0.1).astype(np.float32)


def write_model(path: Path, byte_bias: float) -> None:
    """A llama of one layer, with a token for each byte. Its first input is constant, so that a weight on it is a bias
    of the token."""
    kind = gguf.TokenType
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *LETTERS]
    kinds = [kind.UNKNOWN, kind.CONTROL, kind.CONTROL, *[kind.BYTE] * 256, *[kind.NORMAL] * len(LETTERS)]
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(32768)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types(kinds)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_chat_template(TEMPLATE)
    embedding, output = some(len(tokens), WIDTH), some(len(tokens), WIDTH)
    embedding[:, 0] = 3
    output[:, 0] = [byte_bias if kinds[n] is kind.BYTE else LIKED.get(token, 0.0) for n, token in enumerate(tokens)]
    writer.add_tensor("token_embd.weight", embedding)
    writer.add_tensor("output.weight", output)
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        writer.add_tensor(f"{name}.weight", np.ones(WIDTH, np.float32))
    for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
        writer.add_tensor(f"blk.0.{name}.weight", some(WIDTH, WIDTH))
    writer.add_tensor("blk.0.ffn_gate.weight", some(INNER, WIDTH))
    writer.add_tensor("blk.0.ffn_up.weight", some(INNER, WIDTH))
    writer.add_tensor("blk.0.ffn_down.weight", some(WIDTH, INNER))
    finish(writer)


def write_image_part(path: Path) -> None:
    """A CLIP of one layer and a projector, as LLaVA has them."""
    writer = gguf.GGUFWriter(str(path), "clip")
    writer.add_bool("clip.has_vision_encoder", True)
    writer.add_bool("clip.has_llava_projector", True)
    writer.add_string("clip.projector_type", "mlp")
    writer.add_bool("clip.use_gelu", False)
    for name, value in (
        ("image_size", IMAGE),
        ("patch_size", PATCH),
        ("embedding_length", IMAGE_WIDTH),
        ("feed_forward_length", 2 * IMAGE_WIDTH),
        ("projection_dim", WIDTH),
        ("attention.head_count", 2),
        ("block_count", IMAGE_LAYERS + 1),  # llama.cpp leaves out the last one of a LLaVA
    ):
        writer.add_uint32(f"clip.vision.{name}", value)
    writer.add_float32("clip.vision.attention.layer_norm_epsilon", 1e-5)
    writer.add_array("clip.vision.image_mean", [0.5, 0.5, 0.5])
    writer.add_array("clip.vision.image_std", [0.5, 0.5, 0.5])
    writer.add_tensor("v.class_embd", some(IMAGE_WIDTH))
    writer.add_tensor("v.patch_embd.weight", some(IMAGE_WIDTH, 3, PATCH, PATCH))
    writer.add_tensor("v.position_embd.weight", some((IMAGE // PATCH) ** 2 + 1, IMAGE_WIDTH))
    shapes: dict[str, tuple[int, ...]] = {"v.pre_ln": (IMAGE_WIDTH,)}
    for layer in range(IMAGE_LAYERS + 1):
        block = f"v.blk.{layer}"
        shapes |= {f"{block}.attn_{one}": (IMAGE_WIDTH, IMAGE_WIDTH) for one in ("q", "k", "v", "out")}
        shapes |= {f"{block}.ln{one}": (IMAGE_WIDTH,) for one in (1, 2)}
        shapes |= {f"{block}.ffn_up": (2 * IMAGE_WIDTH, IMAGE_WIDTH)}
        shapes |= {f"{block}.ffn_down": (IMAGE_WIDTH, 2 * IMAGE_WIDTH)}
    shapes |= {"mm.0": (WIDTH, IMAGE_WIDTH), "mm.2": (WIDTH, WIDTH)}
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", some(*shape) if len(shape) > 1 else np.ones(shape, np.float32))
        writer.add_tensor(f"{name}.bias", np.zeros(shape[0], np.float32))
    finish(writer)


def finish(writer: gguf.GGUFWriter) -> None:
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main(folder: str, context: str, sees: str, key: str, writes: str) -> None:
    model, images = Path(folder) / "tiny.gguf", Path(folder) / "mmproj.gguf"
    write_model(model, 3.0 if writes == "bytes" else -3.0)
    write_image_part(images)
    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    if sees == "images":
        params.mmproj.path = str(images)
    params.n_ctx, params.n_parallel, params.port, params.warmup = int(context), 1, 0, False
    params.cpuparams.n_threads = 1
    params.sampling.seed = 1
    if key:
        params.api_keys = [key]
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
