"""Loads an adapter that `hloom train` wrote with PEFT, and holds PEFT's logits against hloom's.

    pip install torch transformers peft gguf safetensors
    python tests/peft_check.py MODEL ADAPTER LOGITS.json

MODEL is the folder or GGUF file that was trained, ADAPTER the folder that `hloom train` wrote, LOGITS.json what
`cargo test peft` leaves: {"ids": [...], "logits": [...]}, the logits of the last position. Prints the largest difference
and that of the merged model from the base; exits with 1 if the first is over 1e-3, the second is nothing, or PEFT warned.
"""

import json
import pathlib
import sys
import warnings

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

LIMIT = 1e-3


def base_model(path):
    if path.is_dir():
        return AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
    return AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)


def last_logits(model, ids):
    with torch.no_grad():
        return model(input_ids=torch.tensor([ids])).logits[0, -1]


def main():
    model_path, adapter, golden = map(pathlib.Path, sys.argv[1:4])
    ours = json.loads(golden.read_text())
    ids, logits = ours["ids"], torch.tensor(ours["logits"])
    base = base_model(model_path).eval()
    before = last_logits(base, ids)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = PeftModel.from_pretrained(base, adapter).eval()
    # transformers itself warns of names that it will drop.
    caught = [str(warning.message) for warning in caught if warning.category is not FutureWarning]
    difference = (last_logits(model, ids) - logits).abs().max().item()
    change = (last_logits(model.merge_and_unload(), ids) - before).abs().max().item()
    print(f"largest difference from hloom: {difference:.2e}, merged model from the base: {change:.2e}")
    for warning in caught:
        print(f"warning: {warning}", file=sys.stderr)
    passed = difference <= LIMIT and change > LIMIT and not caught
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    main()
