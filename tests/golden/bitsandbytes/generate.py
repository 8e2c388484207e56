"""Quantized models as transformers and bitsandbytes save them, and blocks at the limits of the formats.

    pip install torch transformers accelerate bitsandbytes safetensors;  python generate.py OUT_DIR

OUT_DIR/nf4, nf4-double, int8: a Llama of one layer with random weights, from `save_pretrained`. In each, expected.safetensors
holds the float32 values of every quantized weight by its name, `input_ids` [2, 12] int64, and `logits` [2, 12, vocab]
float32 of a model with these values.

OUT_DIR/blocks.safetensors, for each weight NAME [out, in]: NAME.weight, NAME.packed and NAME.absmax of NF4 in blocks of 64,
and of its double quantization NAME.offset [], NAME.nested_absmax, and the 8-bit codes of `absmax - offset` twice:
NAME.nearest, the nearest values (the kernel for CUDA, and the operation in torch), and NAME.table, those of the library for
the CPU, which looks codes up in a table of 65536 entries: entry `round((x + 1) 65535 / 2)` is the code nearest to the middle
of the entry. The two differ in about one code in 600.
"""

import pathlib
import sys
import tempfile

import torch
from bitsandbytes.functional import create_dynamic_map, dequantize_4bit, quantize_4bit
from safetensors.torch import save_file
from transformers import BitsAndBytesConfig, LlamaConfig, LlamaForCausalLM

# Rows of whole blocks: the kernel for CPUs dequantizes others with the scale of another block.
CONFIG = dict(vocab_size=96, hidden_size=64, intermediate_size=128, num_hidden_layers=1, num_attention_heads=4,
              num_key_value_heads=2, max_position_embeddings=128, rms_norm_eps=1e-5, tie_word_embeddings=False,
              bos_token_id=1, eos_token_id=2, initializer_range=0.08)
FOUR_BITS = dict(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.float32)
MODELS = {
    "nf4": BitsAndBytesConfig(**FOUR_BITS, bnb_4bit_use_double_quant=False),
    "nf4-double": BitsAndBytesConfig(**FOUR_BITS, bnb_4bit_use_double_quant=True),
    "int8": BitsAndBytesConfig(load_in_8bit=True),
}


def dequantized(module):
    if hasattr(module.weight, "SCB"):
        return module.weight.data.float() * (module.weight.SCB.float() / 127).unsqueeze(1)
    return dequantize_4bit(module.weight.data, module.weight.quant_state).float()


def model(folder, plain, quantization):
    LlamaForCausalLM.from_pretrained(plain, quantization_config=quantization, dtype=torch.float32,
                                     device_map="cpu").save_pretrained(folder)
    quantized = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32, device_map="cpu")
    reference = LlamaForCausalLM.from_pretrained(plain, dtype=torch.float32)
    expected = {}
    for name, module in quantized.named_modules():
        if hasattr(module, "weight") and type(module).__module__.startswith("bitsandbytes"):
            value = dequantized(module)
            expected[f"{name}.weight"] = value.contiguous()
            reference.get_submodule(name).weight.data.copy_(value)
    assert len(expected) == 7, sorted(expected)
    ids = torch.randint(3, CONFIG["vocab_size"], (2, 12), generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        expected |= {"input_ids": ids, "logits": reference(ids).logits.contiguous()}
    save_file(expected, folder / "expected.safetensors")


def nearest(values):
    """The codes of quantize_blockwise, by its formula for devices without a library."""
    code = create_dynamic_map()
    rest = -len(values) % 256
    blocks = torch.nn.functional.pad(values, (0, rest)).view(-1, 256)
    absmax = blocks.abs().max(dim=1)[0]
    scaled = (blocks * (1 / absmax.clamp(min=1e-38)).unsqueeze(1)).clamp(-1, 1).flatten()[: len(values)]
    return torch.bucketize(scaled, (code[:-1] + code[1:]) / 2).to(torch.uint8)


def blocks():
    gen = torch.Generator().manual_seed(17)
    random = lambda *shape: torch.randn(shape, generator=gen)
    zeros = random(4, 64)
    zeros[1] = 0
    tiny = random(2, 64) * 1e-39
    weights = {"many": (random(500, 100) * random(500, 1).exp()).bfloat16(), "incomplete": random(3, 34), "odd": random(1, 71),
               "zeros": zeros, "zeros_incomplete": torch.zeros(2, 35), "tiny": tiny, "half": random(3, 96).half()}
    out = {}
    for name, weight in weights.items():
        packed, state = quantize_4bit(weight, blocksize=64, quant_type="nf4")
        again, double = quantize_4bit(weight, blocksize=64, quant_type="nf4", compress_statistics=True)
        assert torch.equal(packed, again)
        out |= {f"{name}.weight": weight, f"{name}.packed": packed.flatten(), f"{name}.absmax": state.absmax,
                f"{name}.offset": double.offset, f"{name}.nested_absmax": double.state2.absmax,
                f"{name}.table": double.absmax, f"{name}.nearest": nearest(state.absmax - double.offset)}
    return out


def main(out):
    torch.manual_seed(29)
    with tempfile.TemporaryDirectory() as plain:
        LlamaForCausalLM(LlamaConfig(**CONFIG)).save_pretrained(plain)
        for name, quantization in MODELS.items():
            model(out / name, plain, quantization)
    save_file({name: value.contiguous() for name, value in blocks().items()}, out / "blocks.safetensors")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
