//! `hloom inspect`: every kind of file that has a module, and what it says of one; and the formats and stages of `hloom dump`.

use std::{fs, io::Write};

use flate2::{Compression, write::GzEncoder};
use hloom::hlo::raw;
use serde_json::Value;

use crate::support::world::{Ran, World};

/// A scheduled module with a loop of six iterations, and a collective in it that overlaps with a product.
const MODULE: &str = "HloModule m, is_scheduled=true, num_partitions=4
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
body {
  t = (s32[], f32[8,4]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = f32[8,4] get-tuple-element(t), index=1
  start = f32[8,4] all-reduce-start(x), replica_groups={{0,2},{1,3}}, to_apply=add, metadata={op_name=\"backward/layers/attn/q_proj/dot\"}
  y = f32[8,8] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  done = f32[8,4] all-reduce-done(start)
  z = f32[8,4] dot(y, done), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = (s32[], f32[8,4]) tuple(next, z)
}
condition {
  t = (s32[], f32[8,4]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(6)
  ROOT c = pred[] compare(i, n), direction=LT
}
ENTRY main {
  x = f32[8,4] parameter(0)
  zero = s32[] constant(0)
  init = (s32[], f32[8,4]) tuple(zero, x)
  loop = (s32[], f32[8,4]) while(init), condition=condition, body=body
  ROOT out = f32[8,4] get-tuple-element(loop), index=1
}
";

const MESH: &str = "[mesh]\ndata = 2\ntensor = 2\n\n[store]\nmlp = \"tensor\"\n\n[compute]\nbatch = \"data\"\nmlp = \"tensor\"\n";

fn json(world: &World, arguments: &str) -> Value {
    serde_json::from_str(&world.succeeds(&format!("inspect {arguments} --json"))).unwrap()
}

#[test]
fn a_module_is_described() {
    let world = World::new();
    world.write("m.hlo", MODULE);
    world.write("mesh.toml", MESH);
    let Ran { code, out, err } = world.hloom("inspect m.hlo --mesh mesh.toml");
    let expect = "m  m.hlo
22 instructions in 4 computations, scheduled, for 4 devices

work      6.14 kFLOP, 6.14 kFLOP of it in products; 0 transcendental
";
    assert!(out.starts_with(expect), "{out}");
    assert!(out.lines().all(|line| line.chars().count() <= 80), "{out}");
    assert!(
        out.contains("  768 bytes 128 bytes     6  all-reduce     data           1  backward q_proj"),
        "{out}"
    );
    assert!(out.contains("  axis data:  [compute] batch mesh.toml:9\n"), "{out}");
    assert_eq!((code, err.as_str()), (Some(0), ""));
}

#[test]
fn the_json_object_has_every_figure() {
    let world = World::new();
    world.write("m.hlo", MODULE);
    world.write("mesh.toml", MESH);
    let object = json(&world, "m.hlo --mesh mesh.toml");
    assert_eq!((&object["computations"], &object["instructions"]), (&4.into(), &22.into()));
    assert_eq!(object["opcodes"]["parameter"], 5);
    let product = 2.0 * 8.0 * 8.0 * 4.0;
    assert_eq!(object["product_flops"], 6.0 * 2.0 * product);
    let collective = &object["collectives"][0];
    for (key, expect) in
        [("kind", "all-reduce"), ("axis", "data"), ("pass", "backward"), ("part", "layers/attn/q_proj")]
    {
        assert_eq!(collective[key], expect, "{key}");
    }
    assert_eq!((&collective["bytes"], &collective["count"]), (&128.into(), &6.0.into()));
    assert_eq!((&collective["exposed"], &collective["overlapped"]), (&false.into(), &1.into()));
    assert!(object["memory"]["peak_bytes"].as_u64() >= Some(128), "{object}");
    assert_eq!(object["memory"]["curve"].as_array().unwrap().len(), 19);
    let filtered = json(&world, "m.hlo --filter all-reduce>1kB");
    assert_eq!(filtered["collectives"], serde_json::json!([]));
    let Ran { code, err, .. } = world.hloom("inspect m.hlo --filter all>x");
    let expect = "error: invalid value 'all>x' for '--filter <EXPR>': expected a size such as `1MB` or `64KiB`, found `x`
";
    assert!(code == Some(2) && err.starts_with(expect), "{err}");
}

#[test]
fn text_proto_and_compressed_files_are_the_same_module() {
    let world = World::new();
    let gzip = |bytes: &[u8]| {
        let mut writer = GzEncoder::new(vec![], Compression::fast());
        writer.write_all(bytes).unwrap();
        writer.finish().unwrap()
    };
    let module = raw::parse(MODULE, "m.hlo").unwrap();
    let proto = raw::to_proto(&module, raw::ProtoFile::ModuleWithConfig).unwrap().bytes;
    world.write("m.hlo", MODULE);
    world.write("m.hlo.gz", gzip(MODULE.as_bytes()));
    world.write("m.pb", &proto);
    world.write("m.pb.gz", gzip(&proto));
    let [text, others @ ..] = ["m.hlo", "m.hlo.gz", "m.pb", "m.pb.gz"].map(|file| json(&world, file));
    for other in others {
        for key in [
            "module",
            "instructions",
            "opcodes",
            "devices",
            "scheduled",
            "flops",
            "bytes",
            "memory",
            "collectives",
        ] {
            let unnamed = |object: &Value| {
                let mut value = object[key].clone();
                if key == "memory" {
                    value["peak_at"] = Value::Null;
                }
                value
            };
            assert_eq!(unnamed(&other), unnamed(&text), "{key}");
        }
    }
}

#[test]
fn other_files_are_refused_with_what_they_are() {
    let world = World::new();
    world.write("s.mlir", "module @m {\n}\n");
    world.refuses(
        "inspect s.mlir",
        "error: s.mlir:1: expected HLO, found MLIR, such as StableHLO\n  hint: XLA dumps the module as HLO where XLA_FLAGS \
         has xla_dump_to\n",
    );
    world.write("page.hlo", "<!DOCTYPE html>\n<html></html>\n");
    world.refuses(
        "inspect page.hlo",
        "error: cannot read: page.hlo\n  caused by: expected HLO text or an HLO proto, found an HTML page\n  hint: a server's \
         answer was saved in place of the file: download it again, from the address of the raw file, and logged in if access to \
         the model is restricted\n",
    );
    world.write("bytes.pb", [0xff_u8, 1, 2, 3]);
    let Ran { code, err, .. } = world.hloom("inspect bytes.pb");
    assert!(
        code == Some(2) && err.starts_with("error: bytes.pb: expected a serialized HloModuleProto"),
        "{err}"
    );
    fs::create_dir(world.path("empty")).unwrap();
    world.refuses(
        "inspect empty",
        "error: empty: expected HLO modules, as XLA dumps them or in a bundle, found none\n  hint: XLA writes them where \
         XLA_FLAGS has xla_dump_to\n",
    );
}

#[test]
fn a_folder_of_dumps_is_its_stages_in_order() {
    let world = World::new();
    fs::create_dir(world.path("dumps")).unwrap();
    let unscheduled = MODULE.replace(", is_scheduled=true", "");
    world.write("dumps/module_0001.jit_f.before_optimizations.txt", &unscheduled);
    world.write("dumps/module_0001.jit_f.0003.pipeline.after_x.before_y.txt", &unscheduled);
    world.write("dumps/module_0001.jit_f.cpu_after_optimizations.txt", MODULE);
    world.write("dumps/module_0001.jit_f.cpu_after_optimizations-buffer-assignment.txt", "BufferAssignment:");
    let object = json(&world, "dumps");
    let stages: Vec<&str> =
        object["stages"].as_array().unwrap().iter().map(|stage| stage["stage"].as_str().unwrap()).collect();
    assert_eq!(stages, ["before_optimizations", "0003.pipeline.after_x.before_y", "cpu_after_optimizations"]);
    world.write("dumps/module_0002.jit_g.before_optimizations.txt", &unscheduled);
    world.refuses(
        "inspect dumps",
        "error: dumps: expected the stages of one module, found 2 modules\n  hint: choose one of these with --module: \
         module_0001.jit_f, module_0002.jit_g\n",
    );
    assert_eq!(json(&world, "dumps --module jit_g")["module"], "m");
}

#[test]
fn a_page_has_the_module() {
    let world = World::new();
    world.write("m.hlo", MODULE);
    world.succeeds("inspect m.hlo --html m.html");
    let page = String::from_utf8(world.read("m.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("all-reduce-start"));
    let Ran { code, .. } = world.hloom("diff m.hlo m.hlo --html d.html");
    assert_eq!(code, Some(0));
    assert!(world.read("d.html").starts_with(b"<!doctype html>"));
}

const DUMP: &str = "dump --model tiny --batch 2 --seq 16 --target cpu";

#[test]
fn dump_writes_every_format_of_every_stage() {
    let world = World::new();
    for stage in ["graph", "optimized"] {
        let dump = |format: &str| world.succeeds(&format!("{DUMP} --stage {stage} --format {format}"));
        let text = dump("text");
        let module = raw::parse(text, "text").unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
        assert_eq!(module.is_scheduled(), stage == "optimized");
        let object: Value = serde_json::from_str(&dump("json")).unwrap();
        let computations = object["computations"].as_array().unwrap();
        let counts = computations.iter().map(|one| one["instructions"].as_array().unwrap().len());
        assert_eq!(counts.sum::<usize>(), module.num_instructions());
        assert!(dump("dot").starts_with("digraph \"hloom_step\" {\n"));
        assert!(dump("html").starts_with("<!doctype html>"));
        world.succeeds(&format!("{DUMP} --stage {stage} --format proto --out m.pb"));
        assert_eq!(json(&world, "m.pb")["instructions"], module.num_instructions());
    }
    assert!(world.succeeds(&format!("{DUMP} --format stablehlo")).starts_with("module @hloom_step"));
    world.refuses(
        &format!("{DUMP} --stage optimized --format stablehlo"),
        "error: --format: StableHLO cannot express an optimized module\n\n\
         hint: choose `text`, or an earlier stage with `--stage`\n",
    );
}

#[test]
fn a_computation_is_a_module_of_its_own() {
    let world = World::new();
    let text = world.succeeds(&format!("{DUMP} --computation rms_norm"));
    let module = raw::parse(text, "text").unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    assert_eq!((module.name(), module.computation_name(module.entry())), ("rms_norm", "rms_norm"));
    assert_eq!(module.num_computations(), 2, "it calls a reducer");
    world.refuses(
        &format!("{DUMP} --computation rms_nrm"),
        "error: --computation: unknown computation: rms_nrm\n\nhint: did you mean `rms_norm`?\n",
    );
    for (layer, name) in [("--layer", "layer"), ("--layer=backward", "layer.backward")] {
        let text = world.succeeds(&format!("{DUMP} {layer}"));
        assert!(text.starts_with(&format!("HloModule {name}\n")), "{text}");
    }
}

#[test]
fn templates_are_listed_with_their_signatures() {
    let world = World::new();
    let list = world.succeeds("dump --list-templates");
    let entry =
        "rms_norm  built in\n  x: $t[$batch,$seq,$dim]\n  weight: $t[$dim]\n  -> $t[$batch,$seq,$dim]\n";
    assert!(list.contains(entry), "{list}");
    fs::create_dir(world.path("own")).unwrap();
    world.write("own/swiglu.hlo", include_str!("../hlo-templates/swiglu.hlo"));
    let list = world.succeeds("dump --list-templates=own");
    assert!(list.contains("swiglu  own/swiglu.hlo\n"), "{list}");
}
