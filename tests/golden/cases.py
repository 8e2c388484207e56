"""Makes the parity cases of this folder: small models whose weights, adapters and inputs are random, from fixed seeds.

    pip install torch transformers peft safetensors
    python cases.py OUT_DIR            # every case
    python cases.py OUT_DIR CASE ...   # some

A case holds what transformers and PEFT write (config.json, model.safetensors, adapter_config.json,
adapter_model.safetensors) and the reference values that generate.py describes. A case of full training has no adapter:
its gradients and trained tensors have the names of the model's own tensors.
"""

import json
import pathlib
import sys

import torch
from generate import ADAMW, CLIP, IGNORED, WARMUP, Golden
from peft import LoraConfig, get_peft_model
from safetensors import safe_open
from safetensors.torch import save_file
from transformers import (LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM, Qwen2Config,
                          Qwen2ForCausalLM)

LLAMA = (LlamaConfig, LlamaForCausalLM)
QWEN2 = (Qwen2Config, Qwen2ForCausalLM)
MISTRAL = (MistralConfig, MistralForCausalLM)

BASE = dict(vocab_size=256, hidden_size=64, intermediate_size=176, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512,
            rms_norm_eps=1e-5, tie_word_embeddings=False, bos_token_id=1, eos_token_id=2,
            initializer_range=0.08)
PLAIN = dict(rope_type="default", rope_theta=10000.0)
ROPE31 = dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0,
              high_freq_factor=4.0, original_max_position_embeddings=64)
LORA = dict(r=4, lora_alpha=8, lora_dropout=0.0, target_modules="all-linear", task_type="CAUSAL_LM")
CASES = {
    # Llama 3.1 shape: grouped-query attention, llama3 rope scaling, untied head
    "llama31": dict(classes=LLAMA, config=dict(BASE, rope_parameters=ROPE31), lora=LORA, batch=4, seq=96, steps=8),
    # Llama 3.2 shape: tied embeddings, explicit head_dim, a vocabulary no mesh axis divides
    "llama32-tied": dict(classes=LLAMA,
                         config=dict(BASE, vocab_size=259, head_dim=32, tie_word_embeddings=True,
                                     rope_parameters=dict(ROPE31, factor=32.0)),
                         lora=dict(LORA, r=8, lora_alpha=16, target_modules=["q_proj", "v_proj", "down_proj"]),
                         batch=2, seq=33, steps=8),
    # Llama 2 / SmolLM2 shape: plain rope, one key/value head per query head, rsLoRA
    "plain-rslora": dict(classes=LLAMA,
                         config=dict(BASE, num_key_value_heads=4, num_hidden_layers=3, rope_parameters=PLAIN),
                         lora=dict(LORA, r=8, lora_alpha=8, use_rslora=True), batch=3, seq=40, steps=8),
    # Small Qwen 2.5: biases of q, k and v only, tied embeddings; the sliding window is given and not used
    "qwen2": dict(classes=QWEN2,
                  config=dict(BASE, tie_word_embeddings=True, sliding_window=8, use_sliding_window=False,
                              rope_parameters=dict(PLAIN, rope_theta=1000000.0)),
                  lora=LORA, batch=2, seq=48, steps=8),
    # Qwen 2 whose last layer has a sliding window, the first none
    "qwen2-window": dict(classes=QWEN2,
                         config=dict(BASE, vocab_size=128, hidden_size=32, intermediate_size=88, sliding_window=11,
                                     use_sliding_window=True, max_window_layers=1, rope_parameters=PLAIN),
                         lora=LORA, batch=2, seq=48, steps=8),
    # Mistral 7B v0.1 shape: a sliding window in every layer, shorter than the rows; explicit head_dim
    "mistral": dict(classes=MISTRAL, config=dict(BASE, head_dim=32, sliding_window=20, rope_parameters=PLAIN),
                    lora=LORA, batch=2, seq=48, steps=8),
    "dora": dict(classes=LLAMA, config=dict(BASE, rope_parameters=ROPE31),
                 lora=dict(LORA, use_dora=True, lora_bias=False), batch=2, seq=48, steps=8),
    "lora-bias": dict(classes=LLAMA, config=dict(BASE, rope_parameters=ROPE31),
                      lora=dict(LORA, lora_bias=True), batch=2, seq=48, steps=8),
    # Every weight is trained
    "full": dict(classes=LLAMA, config=dict(BASE, vocab_size=128, hidden_size=32, intermediate_size=88,
                                            rope_parameters=ROPE31),
                 lora=None, batch=2, seq=48, steps=8),
}


def batch_for(case, gen, vocab):
    ids = torch.randint(3, vocab, (case["batch"], case["seq"]), generator=gen)
    labels = ids.clone()
    labels[0, : case["seq"] // 3] = IGNORED       # a masked prompt
    labels[-1, case["seq"] // 2:] = IGNORED       # a padded tail
    return ids, labels


def away_from_start(parameters, gen):
    """Moves vectors (norms, biases, magnitudes) from their initial values, at which a wrong one would not show."""
    for parameter in parameters:
        if parameter.ndim == 1:
            parameter.data += 0.1 * torch.randn(parameter.shape, generator=gen)


def trained_model(case, gen, folder):
    """The model in training mode, and saved: with an adapter, or with all weights trained."""
    config_class, model_class = case["classes"]
    model = model_class(config_class(**case["config"])).float()
    away_from_start(model.parameters(), gen)
    model.save_pretrained(folder)
    if case["lora"] is None:
        return model.train()
    adapted = get_peft_model(model, LoraConfig(init_lora_weights=False, **case["lora"]))
    away_from_start((p for p in adapted.parameters() if p.requires_grad), gen)
    adapted.save_pretrained(folder)
    return adapted.train()


def check_names(golden, folder, file):
    """The gradients must have the names of the tensors of the file."""
    with safe_open(folder / file, "pt") as tensors:
        names = set(tensors.keys())
    assert names == set(golden.trained), names ^ set(golden.trained)


def generate(name, out):
    case = CASES[name]
    torch.manual_seed(sum(map(ord, name)))
    gen = torch.Generator().manual_seed(7)
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    model = trained_model(case, gen, folder)
    ids, labels = batch_for(case, gen, model.config.vocab_size)
    golden = Golden(model)
    check_names(golden, folder, "adapter_model.safetensors" if case["lora"] else "model.safetensors")
    golden.put("input_ids", ids)
    golden.put("labels", labels)
    golden.once(ids, labels)
    golden.row_by_row(ids, labels)
    golden.train(ids, labels, case["steps"])
    save_file(golden.tensors, folder / "expected.safetensors")
    (folder / "README.md").unlink(missing_ok=True)
    (folder / "generation_config.json").unlink(missing_ok=True)
    optimizer = dict(ADAMW, clip=CLIP, warmup_steps=WARMUP, total_steps=case["steps"])
    info = dict(case=name, torch=torch.__version__, optimizer=optimizer, loss=golden.tensors["loss"].item(),
                counted_tokens=int((labels[:, 1:] != IGNORED).sum()), losses=golden.tensors["train.losses"].tolist())
    (folder / "expected.json").write_text(json.dumps(info, indent=1) + "\n")
    print(name, info["loss"], info["losses"][-1])


if __name__ == "__main__":
    for name in sys.argv[2:] or CASES:
        generate(name, pathlib.Path(sys.argv[1]))
