//! What we print and encode, XLA's own parser reads as the same module, and we read what XLA makes of it.

use std::{collections::HashMap, fs, path::Path, process::Command};

use crate::{files::SEPARATOR, support::python};
use hloom::hlo::{Computation, InstrId, Module, Opcode, Verified, proto, raw, text, verify};

const EVERY_OPCODE: &str = include_str!("every_opcode.hlo");
/// What XLA prints of one function, annotated for each of its partitioners.
const ANNOTATED: [&str; 2] = [include_str!("annotated_gspmd.hlo"), include_str!("annotated_shardy.hlo")];

/// The Python that has jaxlib.
const PYTHON: &str = "HLOOM_JAX_PYTHON";

#[test]
fn xla_reads_our_text_and_proto_as_the_same_module() {
    let module =
        text::parse(EVERY_OPCODE, "every_opcode.hlo").unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    let module = verify(module).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    for &opcode in Opcode::ALL {
        let used = module.computations().any(|(_, c)| c.instrs.iter().any(|instr| instr.opcode == opcode));
        assert!(used, "every_opcode.hlo lacks {opcode}");
    }
    assert_eq!(text::print(&module), EVERY_OPCODE);

    let Some(python) = python("jax", PYTHON) else { return };
    check_xla(&python, &module);
}

#[test]
fn xla_reads_our_annotations_as_its_own() {
    for source in ANNOTATED {
        let module =
            text::parse(source, "annotated.hlo").unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
        let module = verify(module).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
        // All that our text leaves out are the layouts.
        assert_eq!(text::print(&module), without_layouts(source));
        let decoded = proto::decode(&proto::encode(&module)).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(&decoded, module.module());

        let Some(python) = python("jax", PYTHON) else { return };
        check_xla(&python, &module);
    }
}

/// A layer of a stack in the host's memory.
const STREAMED: &str = r#"HloModule streamed, entry_computation_layout={(f32[2,3]{1,0:S(5)}, s32[])->(f32[3]{0})}, frontend_attributes={arg_memory_spaces="5;0"}

ENTRY main {
  stack = f32[2,3] parameter(0)
  index = s32[] parameter(1)
  zero = s32[] constant(0)
  slice = f32[1,3] dynamic-slice(stack, index, zero), dynamic_slice_sizes={1,3}
  moved = f32[1,3] custom-call(slice), custom_call_target="annotate_device_placement", custom_call_has_side_effect=true, frontend_attributes={_xla_buffer_placement="device"}
  layer = f32[3] reshape(moved)
  ROOT result = (f32[3]) tuple(layer)
}
"#;

#[test]
fn xla_parses_values_in_host_memory() {
    let module = text::parse(STREAMED, "streamed.hlo").unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    assert_eq!(module.host_parameters, [0].into());
    let module = verify(module).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    assert_eq!(text::print(&module), STREAMED);

    let Some(python) = python("jax", PYTHON) else { return };
    check_xla(&python, &module);
}

/// XLA reads what `hlo::raw` prints of a module as the module that it reads from the text itself, and refuses what it refuses.
#[test]
fn xla_reads_what_raw_prints_as_the_same_module() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files: Vec<_> = ["every_opcode.hlo", "annotated_gspmd.hlo", "annotated_shardy.hlo"]
        .map(|name| root.join("tests").join(name))
        .to_vec();
    let of_kind = fs::read_dir(root.join("tests/files/read")).unwrap();
    files.extend(of_kind.map(|entry| entry.unwrap().path()));
    files.sort();
    let folder = tempfile::tempdir().unwrap();
    let mut arguments = Vec::new();
    for (index, path) in files.iter().enumerate() {
        let content = fs::read_to_string(path).unwrap();
        let source = content.split(SEPARATOR).next().unwrap_or_default();
        let (original, printed) =
            (folder.path().join(format!("{index}.hlo")), folder.path().join(format!("{index}.printed")));
        let text = raw::parse(source, &path.display().to_string()).map(|module| raw::print(&module));
        fs::write(&original, source).unwrap();
        fs::write(&printed, text.unwrap_or_default()).unwrap();
        arguments.extend([original, printed]);
    }

    let Some(python) = python("jax", PYTHON) else { return };
    let output = Command::new(python).arg(root.join("tests/xla_same.py")).args(&arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found = String::from_utf8(output.stdout).unwrap();
    let expect: String = files
        .iter()
        .map(|path| path.file_name().unwrap().to_string_lossy().starts_with("refused"))
        .map(|is_refused| if is_refused { "refused\n" } else { "same\n" })
        .collect();
    assert_eq!(found, expect);
}

#[test]
fn xla_reads_our_stablehlo() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().unwrap();
    let mut files = Vec::new();
    for entry in fs::read_dir(root.join("tests/files/stablehlo")).unwrap() {
        let path = entry.unwrap().path();
        let content = fs::read_to_string(&path).unwrap();
        let Some((_, printed)) = content.split_once(SEPARATOR) else { continue };
        // The others expect errors.
        if printed.starts_with("module ") {
            files.push(folder.path().join(path.file_name().unwrap()));
            fs::write(files.last().unwrap(), printed).unwrap();
        }
    }
    assert!(files.len() > 5);
    let Some(python) = python("jax", PYTHON) else { return };
    let output = Command::new(python).arg(root.join("tests/xla_stablehlo.py")).args(&files).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn without_layouts(source: &str) -> String {
    let (head, tail) = source.split_once(", entry_computation_layout=").unwrap();
    let (_, tail) = tail.split_once("s32[])}").unwrap();
    format!("{head}{}", tail.replace("{1,0}", ""))
}

/// XLA makes of our text and of our proto the module that we have.
fn check_xla(python: &str, module: &Verified) {
    let (from_text, from_proto) = through_xla(python, &text::print(module), &proto::encode(module));
    let from_text = proto::decode(&from_text).unwrap_or_else(|error| panic!("{error}"));
    let from_proto =
        text::parse(&from_proto, "XLA's text").unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    let expect = canonical(module.module());
    assert_eq!(canonical(&from_text), expect);
    assert_eq!(canonical(&from_proto), expect);
}

/// The proto that XLA makes of `text`, and the text that it prints of `proto`.
fn through_xla(python: &str, text: &str, proto: &[u8]) -> (Vec<u8>, String) {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["in.hlo", "in.pb", "out.pb", "out.hlo"].map(|name| folder.path().join(name));
    let [text_in, proto_in, proto_out, text_out] = &paths;
    fs::write(text_in, text).unwrap();
    fs::write(proto_in, proto).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/xla_parser.py");
    let output = Command::new(python).arg(script).args(&paths).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (fs::read(proto_out).unwrap(), fs::read_to_string(text_out).unwrap())
}

/// The text of the module with its instructions in the order in which a walk from the root leaves them, and everything
/// named by its position: XLA renames and reorders. Computations keep their order, which is XLA's in the file.
fn canonical(module: &Module) -> String {
    let mut module = module.clone();
    module.name = "m".into();
    for (index, computation) in module.computations.iter_mut().enumerate() {
        let order = post_order(computation);
        let places: HashMap<InstrId, InstrId> =
            order.iter().enumerate().map(|(index, &id)| (id, InstrId::new(index))).collect();
        computation.name = format!("c{index}");
        computation.root = places[&computation.root];
        let instrs = order.iter().enumerate().map(|(index, &id)| {
            let mut instr = computation.instr(id).clone();
            instr.name = format!("i{index}");
            instr.operands.iter_mut().for_each(|operand| *operand = places[operand]);
            instr
        });
        computation.instrs = instrs.collect();
    }
    text::print_module(&module)
}

fn post_order(computation: &Computation) -> Vec<InstrId> {
    let mut order = Vec::new();
    let mut stack = vec![(computation.root, 0)];
    while let Some((id, next)) = stack.pop() {
        match computation.instr(id).operands.get(next) {
            Some(&operand) => {
                stack.push((id, next + 1));
                if !order.contains(&operand) {
                    stack.push((operand, 0));
                }
            }
            None if order.contains(&id) => {}
            None => order.push(id),
        }
    }
    order
}
