"""Models with weights that bitsandbytes quantized, as transformers saves them, and what transformers computes with them.

usage: quantized_models.py MODEL OUT

MODEL: a folder of a small Llama in 16 or 32 bits, without an adapter: config.json and model.safetensors of ../llama31.
OUT/nf4 and OUT/nf4-double: the folder that `save_pretrained` writes, and expected.safetensors with the dequantized weights by
their names, input_ids and the logits in float32.
"""

import pathlib
import sys

import torch
from bitsandbytes.functional import dequantize_4bit
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

source, out = sys.argv[1], pathlib.Path(sys.argv[2])
for name, double in [("nf4", False), ("nf4-double", True)]:
    config = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=double,
        bnb_4bit_compute_dtype=torch.float32,
    )
    model = AutoModelForCausalLM.from_pretrained(
        source, quantization_config=config, device_map="cpu", dtype=torch.float32
    )
    model.save_pretrained(out / name)
    expected = {
        f"{path}.weight": dequantize_4bit(module.weight.data, module.weight.quant_state).contiguous()
        for path, module in model.named_modules()
        if hasattr(module, "weight") and hasattr(module.weight, "quant_state")
    }
    ids = torch.randint(0, model.config.vocab_size, (2, 24), generator=torch.Generator().manual_seed(3))
    # The forward pass is that of the dequantized weights: kernels for 4-bit products take other sizes only.
    plain = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)
    plain.load_state_dict(expected, strict=False)
    with torch.no_grad():
        logits = plain(ids).logits
    expected |= {"input_ids": ids.to(torch.int32), "logits": logits.contiguous()}
    save_file(expected, out / name / "expected.safetensors")
