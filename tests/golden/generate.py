"""Makes a parity case of your own model: what transformers and PEFT compute, in float32 on the CPU.

    pip install torch transformers peft safetensors
    python generate.py --model DIR --out CASE [--adapter DIR] [--batch 2] [--seq 64] [--steps 8] [--rank 8]
    hloom parity --model DIR --adapter CASE --expected CASE/expected.safetensors
    python generate.py --model DIR --out CASE --train all
    hloom parity --model DIR --train all --expected CASE/expected.safetensors

DIR is a folder as transformers writes it. Without --adapter, a random LoRA on all linear layers is made and saved in
CASE. With --train all there is no adapter: "adapter tensor" below is then every weight of the model. The inputs are random tokens; of the first row a third stands for a prompt, of the last one half for padding, and
neither is counted. CASE/expected.safetensors then holds

    input_ids, labels       [batch, seq], int64; -100 is not counted
    logits                  [batch, seq, vocab]
    loss                    [], the mean over the counted next tokens
    grad.NAME               of the loss, for each adapter tensor
    train.lrs               [steps], the learning rates used
    train.losses            [steps], before each update
    train.grad_norms        [steps], before clipping
    train.NAME              each adapter tensor after the last update
    accum.loss, accum.grad.NAME
                            the same sums taken one sequence at a time

and CASE/expected.json the settings of the optimizer.
"""

import argparse
import json
import pathlib

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, get_cosine_schedule_with_warmup

ADAMW = dict(lr=1e-2, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)
CLIP, WARMUP, IGNORED = 1.0, 2, -100


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, type=pathlib.Path)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--adapter", type=pathlib.Path)
    parser.add_argument("--train", choices=("lora", "all"), default="lora")
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--seq", type=int, default=64)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def adapted(args):
    """The model with its adapter, which is saved beside the golden values."""
    base = AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32)
    if args.train == "all":
        if (args.model / "adapter_config.json").exists():
            raise SystemExit(f"{args.model}: transformers would load the adapter in this folder; copy the model without it")
        return base.train()
    if args.adapter:
        model = PeftModel.from_pretrained(base, args.adapter, is_trainable=True)
    else:
        # PEFT starts B at zero, which would hide a wrong A: both factors are random here.
        model = get_peft_model(base, LoraConfig(
            r=args.rank, lora_alpha=2 * args.rank, target_modules="all-linear",
            task_type="CAUSAL_LM", init_lora_weights=False))
    model.save_pretrained(args.out)
    return model.train()


def tokens(args, vocab):
    ids = torch.randint(vocab, (args.batch, args.seq))
    labels = ids.clone()
    labels[0, : args.seq // 3] = IGNORED
    labels[-1, args.seq // 2:] = IGNORED
    return ids, labels


def file_name(name):
    """The name of a parameter in the files that PEFT writes."""
    return name.replace(".default", "").replace(".lora_magnitude_vector.weight", ".lora_magnitude_vector")


class Golden:
    """Collects tensors under the names of a case."""

    def __init__(self, model):
        self.model = model
        self.tensors = {}
        self.trained = {file_name(name): p for name, p in model.named_parameters() if p.requires_grad}

    def put(self, name, value):
        value = value if torch.is_tensor(value) else torch.tensor(value)
        self.tensors[name] = value.detach().clone().contiguous()

    def take_gradients(self, prefix):
        for name, parameter in self.trained.items():
            self.put(f"{prefix}grad.{name}", parameter.grad)
            parameter.grad = None

    def once(self, ids, labels):
        output = self.model(input_ids=ids, labels=labels)
        output.loss.backward()
        self.put("logits", output.logits)
        self.put("loss", output.loss)
        self.take_gradients("")

    def row_by_row(self, ids, labels):
        counted = (labels[:, 1:] != IGNORED).sum()
        parts = []
        for row in range(len(ids)):
            part = self.model(input_ids=ids[row:row + 1], labels=labels[row:row + 1], num_items_in_batch=counted)
            part.loss.backward()
            parts.append(part.loss.item())
        self.put("accum.loss", sum(parts))
        self.take_gradients("accum.")

    def train(self, ids, labels, steps):
        optimizer = torch.optim.AdamW(self.trained.values(), **ADAMW)
        schedule = get_cosine_schedule_with_warmup(optimizer, WARMUP, steps)
        history = {"losses": [], "grad_norms": [], "lrs": []}
        for _ in range(steps):
            loss = self.model(input_ids=ids, labels=labels).loss
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(list(self.trained.values()), CLIP)
            for key, value in zip(history, (loss.item(), norm.item(), schedule.get_last_lr()[0])):
                history[key].append(value)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        for key, values in history.items():
            self.put(f"train.{key}", values)
        for name, parameter in self.trained.items():
            self.put(f"train.{name}", parameter)


def main():
    args = arguments()
    torch.manual_seed(args.seed)
    args.out.mkdir(parents=True, exist_ok=True)
    model = adapted(args)
    ids, labels = tokens(args, model.config.vocab_size)
    golden = Golden(model)
    golden.put("input_ids", ids)
    golden.put("labels", labels)
    golden.once(ids, labels)
    golden.row_by_row(ids, labels)
    golden.train(ids, labels, args.steps)
    save_file(golden.tensors, args.out / "expected.safetensors")
    optimizer = dict(ADAMW, clip=CLIP, warmup_steps=WARMUP, total_steps=args.steps)
    (args.out / "expected.json").write_text(json.dumps(dict(torch=torch.__version__, optimizer=optimizer), indent=1) + "\n")
    print(f"{args.out}: {len(golden.tensors)} tensors, loss {golden.tensors['loss'].item():.6f}")


if __name__ == "__main__":
    main()
