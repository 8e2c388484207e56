"""Writes the golden outputs of Jinja2 for chat templates.

    python3 generate.py features        rewrites features.json from features.txt
    python3 generate.py models FOLDER   rewrites models.json from the templates of the wheels in FOLDER
    python3 generate.py render          renders one JSON {"template", "variables"} of standard input

The environment is the one that Hugging Face transformers builds for chat templates: transformers itself is used
where it can be imported, and Jinja2 3.1.6 with the same settings otherwise.
"""

import datetime
import hashlib
import json
import pathlib
import sys
import zipfile

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

HERE = pathlib.Path(__file__).parent
NOW = datetime.datetime(2024, 7, 26, 13, 4, 5)
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_text"), [], [], body).set_lineno(line)

    def _text(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def strftime_now(format):
    return NOW.strftime(format)


def plain_environment():
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    return environment


def compiled(template):
    try:
        from transformers.utils import chat_template_utils
    except ImportError:
        return plain_environment().from_string(template, globals={"strftime_now": strftime_now})
    result = chat_template_utils._compile_jinja_template(template)
    result.globals["strftime_now"] = strftime_now
    return result


def render(template, variables):
    """The text, or None and the message of the error."""
    try:
        return compiled(template).render(**variables), None
    except Exception as error:  # a template may raise any
        return None, f"{type(error).__name__}: {error}"


def features():
    """Cases: the expressions of `expressions.txt`, and the templates of `features.txt` between lines of `---`."""
    variables = json.loads((HERE / "variables.json").read_text())
    cases = []
    lines = (HERE / "expressions.txt").read_text().splitlines()
    sources = ["{{ " + line + " }}" for line in lines if line and not line.startswith("# ")]
    sources += (HERE / "features.txt").read_text().removesuffix("\n").split("\n---\n")
    for source in sources:
        # A line break, a carriage return or a byte that an editor would change is spelled `<CR>`.
        source = source.replace("<CR>", "\r").replace("<LF>", "\n").replace("<FF>", "\f").replace("<NBSP>", "\xa0")
        text, error = render(source, variables)
        if text is None:
            cases.append({"template": source, "error": error})
        elif " at 0x" in text:
            cases.append({"template": source, "error": "the text holds an address"})
        else:
            cases.append({"template": source, "text": text})
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    (HERE / "features.json").write_text(f"[\n{lines}\n]\n")
    errors = sum("error" in case for case in cases)
    print(f"{len(cases)} cases, {errors} of them errors")


def model_templates(folder):
    for wheel in sorted(pathlib.Path(folder).glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            for name in sorted(archive.namelist()):
                if name.endswith(".jinja"):
                    yield name, archive.read(name).decode()


def models(folder):
    chats = json.loads((HERE / "chats.json").read_text())
    golden = {}
    for name, source in model_templates(folder):
        outputs = []
        for chat in chats:
            text, error = render(source, {**TOKENS, "tools": None, "documents": None, **chat["variables"]})
            if text is None:
                outputs.append("error")
            else:
                digest = hashlib.sha256(text.encode()).hexdigest()
                outputs.append(f"{len(text.encode())} {digest[:32]}")
        golden[name] = outputs
        print(name, [output.split()[0] for output in outputs])
    (HERE / "models.json").write_text(json.dumps(golden, indent=1) + "\n")


def main():
    match sys.argv[1:]:
        case ["features"]:
            features()
        case ["models", folder]:
            models(folder)
        case ["render"]:
            job = json.load(sys.stdin)
            text, error = render(job["template"], job["variables"])
            json.dump({"text": text, "error": error}, sys.stdout)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
