//! What mesh files lead to, and the full text of every problem.

use std::{fs, path::Path};

use super::*;
use crate::{
    base::{ArrayShape, DType},
    hlo::{
        Module, ModuleBuilder,
        text::{self, MetadataText},
        verify,
    },
};

const FSDP_TENSOR: &str = "[mesh]\nfsdp = 4\ntensor = 2\n[store]\nembed = \"fsdp\"\nkv_heads = \"tensor\"\nmlp = \"tensor\"\n\
                           [compute]\nbatch = \"fsdp\"\nkv_heads = \"tensor\"\n";

fn tensor(name: &str, group: TensorGroup, rules: RuleSet, dims: &[(Dim, usize)]) -> Tensor {
    Tensor { name: name.into(), group, dims: dims.into(), dtype: DType::F32, rules }
}

fn stored(name: &str, group: TensorGroup, dims: &[(Dim, usize)]) -> Tensor {
    tensor(name, group, RuleSet::AtRest { param: name.into() }, dims)
}

/// A model in small: two linears, the adapter on one, an array and an activation.
fn tensors() -> Vec<Tensor> {
    let (layers, rank) = ((Dim::Layers, 2), (Dim::Rank, 4));
    let (embed, mlp) = ((Dim::Embed, 64), (Dim::Mlp, 96));
    let (heads, head_dim) = ((Dim::KvHeads, 8), (Dim::HeadDim, 16));
    let key = "model.layers.*.self_attn.k_proj";
    let adapter = |factor: &str, side: &[(Dim, usize)]| {
        let rules = RuleSet::AtRest { param: format!("{key}.weight") };
        tensor(
            &format!("{key}.{factor}.weight"),
            TensorGroup::Adapter,
            rules,
            &[&[layers, rank], side].concat(),
        )
    };
    let (batch, seq) = ((Dim::Batch, 8), (Dim::Seq, 32));
    vec![
        stored("model.norm.weight", TensorGroup::Base, &[embed]),
        stored(&format!("{key}.weight"), TensorGroup::Base, &[layers, heads, head_dim, embed]),
        stored("model.layers.*.mlp.up_proj.weight", TensorGroup::Base, &[layers, mlp, embed]),
        adapter("lora_A", &[embed]),
        adapter("lora_B", &[heads, head_dim]),
        tensor("labels", TensorGroup::Batch, RuleSet::Compute, &[batch, seq]),
        tensor("activation.k", TensorGroup::Activation, RuleSet::Compute, &[batch, seq, heads, head_dim]),
    ]
}

/// Checks the file `m.toml` among others, with places relative to their folder.
fn report(files: &[(&str, &str)], devices: Option<usize>) -> (MeshReport, String) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let loaded = load(&folder.path().join("m.toml")).unwrap();
    let report = check(&loaded, &tensors(), devices);
    let texts: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
    let prefix = format!("{}/", folder.path().display());
    (report, texts.join("\n").replace(&prefix, ""))
}

#[track_caller]
fn problems(text: &str, devices: Option<usize>, expect: &str) {
    assert_eq!(report(&[("m.toml", text)], devices).1, expect);
}

/// Checks what is wrong once `from` has become `to` in a config that is right.
#[track_caller]
fn changed(from: &str, to: &str, expect: &str) {
    assert!(FSDP_TENSOR.contains(from), "{from}");
    problems(&FSDP_TENSOR.replacen(from, to, 1), None, expect);
}

#[track_caller]
fn plan(text: &str) -> Plan {
    let (report, problems) = report(&[("m.toml", text)], None);
    assert_eq!(problems, "");
    report.plan.unwrap()
}

#[test]
fn tensors_are_split_as_the_file_says() {
    let plan = plan(FSDP_TENSOR);
    assert_eq!((plan.mesh.devices(), plan.mesh.to_string().as_str()), (8, "fsdp 4 x tensor 2"));
    let shard = |name: &str| plan.get(name).unwrap().shard_shape().to_string();
    assert_eq!(shard("model.layers.*.self_attn.k_proj.weight"), "f32[2,4,16,16]");
    assert_eq!(shard("model.layers.*.self_attn.k_proj.lora_A.weight"), "f32[2,4,16]");
    assert_eq!(shard("model.layers.*.self_attn.k_proj.lora_B.weight"), "f32[2,4,4,16]");
    assert_eq!(shard("labels"), "f32[2,32]");
    assert_eq!(shard("activation.k"), "f32[2,32,4,16]");
    let computed = [(Dim::KvHeads, 8), (Dim::HeadDim, 16), (Dim::Embed, 64)];
    let computed = plan.assign(&tensor(
        "model.layers.*.self_attn.k_proj.weight",
        TensorGroup::Base,
        RuleSet::Compute,
        &computed,
    ));
    assert_eq!(computed.shard_shape().to_string(), "f32[4,16,64]");
    let base = 4 * (16 + 2 * 4 * 16 * 16 + 2 * 48 * 16);
    let adapters = 4 * (2 * 4 * 16 + 2 * 4 * 4 * 16);
    assert_eq!(plan.device_bytes(), DeviceBytes { base, adapters, optimizer: 0 });
    let replicated: Vec<_> =
        plan.replicated().into_iter().map(|r| (r.axes, r.copies, r.bytes, r.extra_bytes)).collect();
    let axis = |name: &str| vec![name.to_owned()];
    assert_eq!(
        replicated,
        [(axis("tensor"), 2, 64, 32), (axis("tensor"), 2, 512, 256), (axis("fsdp"), 4, 2048, 1536),]
    );
}

#[test]
fn adapters_follow_overrides_of_their_base() {
    let text = format!(
        "{FSDP_TENSOR}[[override]]\nparam = \"layers.*.self_attn.k_proj\"\ndims = {{ kv_heads = \"none\" }}\n"
    );
    let plan = plan(&text);
    let shard = |name: &str| plan.get(name).unwrap().shard_shape().to_string();
    assert_eq!(shard("model.layers.*.self_attn.k_proj.weight"), "f32[2,8,16,16]");
    assert_eq!(shard("model.layers.*.self_attn.k_proj.lora_B.weight"), "f32[2,4,8,16]");
    assert_eq!(shard("activation.k"), "f32[2,32,4,16]");
}

#[test]
fn an_explanation_names_the_line_of_every_dimension() {
    let text =
        format!("{FSDP_TENSOR}[[override]]\nparam = \"*k_proj\"\ndims = {{ kv_heads = [\"tensor\"] }}\n");
    let plan = plan(&text);
    let found = find_matching(&plan, "layers.*.self_attn.k_proj");
    assert_eq!(found.len(), 3);
    let text = explain(found[0], &plan.mesh);
    let folder = text.split_whitespace().find_map(|word| word.strip_suffix("m.toml:5")).unwrap().to_owned();
    assert_eq!(
        text.replace(&folder, ""),
        "model.layers.*.self_attn.k_proj.weight  f32[2,8,16,64]\n  \
         shard f32[2,4,16,16], 8192 bytes on each device\n  \
         layers           2 -> 2       replicated      no rule\n  \
         kv_heads         8 -> 4       tensor          m.toml:13\n  \
         head_dim        16 -> 16      replicated      no rule\n  \
         embed           64 -> 16      fsdp            m.toml:5\n"
    );
}

#[test]
fn one_size_may_be_the_rest() {
    let text = FSDP_TENSOR.replacen("4", "\"rest\"", 1);
    let (report, text_of) = report(&[("m.toml", &text)], Some(16));
    assert_eq!((report.plan.unwrap().mesh.to_string().as_str(), text_of.as_str()), ("fsdp 8 x tensor 2", ""));
    problems(
        &text,
        None,
        "error[rest-unknown]: m.toml:2: `mesh.fsdp`: \"rest\" is unknown without the number of devices\n  \
         hint: set a target, such as setting `target = cpu:8`, or write a number",
    );
    problems(
        &text,
        Some(9),
        "error[rest-indivisible]: m.toml:2: `mesh.fsdp`: the other axes do not divide 9 devices: 2\n  \
         hint: let the other sizes multiply to 1, 3 or 9",
    );
    problems(
        "[mesh]\na = \"rest\"\nb = \"rest\"\n",
        Some(8),
        "error[two-rest]: m.toml:3: `mesh.b`: only one axis can have the size \"rest\", and `a` has it: m.toml:2\n  \
         hint: give one of them a number",
    );
}

#[test]
fn sizes_that_are_not_the_devices() {
    problems(
        FSDP_TENSOR,
        Some(16),
        "error[device-count]: m.toml:1: `mesh`: expected 16 devices, as the target has, found 8: fsdp 4 x tensor 2\n  \
         hint: write `fsdp = 8` or `tensor = 4`, or give a target of 8",
    );
}

#[test]
fn names_that_nothing_has() {
    changed(
        "mlp = \"tensor\"",
        "mlp = \"tensr\"",
        "error[unknown-axis]: m.toml:7: `store.mlp`: unknown mesh axis: tensr\n  hint: did you mean `tensor`?",
    );
    changed(
        "mlp = \"tensor\"",
        "mlq = \"tensor\"",
        "error[unknown-dim]: m.toml:7: `store.mlq`: unknown dimension: mlq\n  hint: did you mean `mlp`?",
    );
    changed(
        "[store]",
        "[stores]",
        "error[unknown-key]: m.toml:4: `stores`: unknown table or key: stores\n  hint: did you mean `store`?",
    );
    changed(
        "mlp = \"tensor\"",
        "batch = \"tensor\"",
        "error[unused-rule]: m.toml:7: `store.batch`: no parameter, adapter or optimizer tensor has this dimension: batch\n  \
         hint: leave it out, or move it to [compute]",
    );
    problems(
        &format!(
            "{FSDP_TENSOR}[[override]]\nparam = \"layers.*.self_atn.k_proj\"\ndims = {{ kv_heads = \"none\" }}\n"
        ),
        None,
        "error[override-unmatched]: m.toml:12: `override.param`: matches no parameter: layers.*.self_atn.k_proj\n  \
         hint: did you mean `layers.*.self_attn.k_proj`?",
    );
    problems(
        &format!("{FSDP_TENSOR}[[override]]\nparam = \"norm\"\ndims = {{ mlp = \"none\" }}\n"),
        None,
        "error[override-dim]: m.toml:13: `override.dims.mlp`: no parameter that `norm` matches has this dimension: mlp\n  \
         hint: they have embed",
    );
}

#[test]
fn rules_that_cannot_be_followed() {
    changed(
        "mlp = \"tensor\"",
        "mlp = \"fsdp\"",
        "error[axis-conflict]: m.toml:5: `store.embed`: mesh axis fsdp (4) already shards mlp and cannot shard embed: \
         layers.*.mlp.up_proj\n  hint: replicate one of the two with \"none\", by an [[override]] if only for these tensors, \
         or set `axis_conflict = \"replicate\"` under [policy] to replicate embed",
    );
    let sixteen = "[mesh]\nt = 16\n[store]\nkv_heads = \"t\"\n";
    problems(
        sixteen,
        None,
        "error[indivisible]: m.toml:4: `store.kv_heads`: kv_heads of 8 cannot be sharded over t (16): \
         layers.*.self_attn.k_proj, layers.*.self_attn.k_proj.lora_B\n  hint: it can be sharded into 1, 2, 4 or 8; \
         or write `kv_heads = \"none\"`, or set `indivisible = \"replicate\"` or `\"pad\"` under [policy]",
    );
    problems(
        "[mesh]\ndata = 3\n[compute]\nbatch = \"data\"\n",
        None,
        "error[batch-indivisible]: m.toml:4: `compute.batch`: batch of 8 cannot be sharded over data (3): labels, \
         activation.k\n  hint: take a batch of 3, 6, 9 ...",
    );
    changed(
        "tensor = 2\n",
        "tensor = 2\nspare = 3\n",
        "error[unused-axis]: m.toml:4: `mesh.spare`: shards nothing: 3 groups of devices would do the same work\n  \
         hint: write `spare` in [store] or [compute], or give it the size 1",
    );
    changed("tensor = 2\n", "tensor = 2\nspare = 1\n", "");
}

#[test]
fn values_of_the_wrong_kind() {
    changed(
        "mlp = \"tensor\"",
        "mlp = 2",
        "error[wrong-value]: m.toml:7: `store.mlp`: expected an axis, a list of axes or \"none\", found: 2",
    );
    changed(
        "mlp = \"tensor\"",
        "mlp = [\"tensor\", \"tensor\"]",
        "error[repeated-axis]: m.toml:7: `store.mlp`: duplicate mesh axis in the list: tensor\n  hint: leave out one of them",
    );
    changed(
        "mlp = \"tensor\"",
        "rank = \"tensor\"",
        "error[split-rank]: m.toml:7: `store.rank`: the rank of adapters cannot be sharded\n  \
         hint: remove it: adapters are sharded as the parameters they adapt",
    );
    changed(
        "mlp = \"tensor\"",
        "layers = \"tensor\"",
        "error[split-layers]: m.toml:7: `store.layers`: the stack of layers cannot be sharded: every device runs \
         all layers\n  hint: shard another dimension, such as `embed`",
    );
    problems(
        "[mesh]\n2d = 4\n",
        None,
        "error[axis-name]: m.toml:2: `mesh.2d`: invalid name of a mesh axis: 2d\n  hint: a name consists of letters, digits and `_`, \
         does not begin with a digit, and is neither `none` nor `rest`",
    );
    changed(
        "tensor = 2",
        "tensor = 0",
        "error[axis-size]: m.toml:3: `mesh.tensor`: expected a whole number of at least 1 or \"rest\", found: 0\n  \
         hint: an axis of size 1 shards nothing",
    );
    changed(
        "[compute]",
        "[policy]\naxis_conflict = \"pad\"\n[compute]",
        "error[wrong-value]: m.toml:9: `policy.axis_conflict`: expected \"error\" or \"replicate\", found: \"pad\"",
    );
    problems(
        "[store]\n",
        None,
        "error[no-mesh]: m.toml: expected a table [mesh], found none\n  hint: for example `[mesh]` and below it `fsdp = 8`",
    );
}

#[test]
fn all_problems_are_reported_together() {
    let text = FSDP_TENSOR
        .replace("mlp = \"tensor\"", "mlp = \"tensr\"\nhead = \"tensor\"")
        .replace("fsdp = 4", "fsdp = 3");
    let (report, _) = report(&[("m.toml", &text)], None);
    let codes: Vec<Option<&str>> = report.problems.iter().map(|problem| problem.code).collect();
    let expect =
        [MeshCode::UnknownDim, MeshCode::UnknownAxis, MeshCode::Indivisible, MeshCode::BatchIndivisible];
    assert_eq!(codes, expect.map(|code| Some(code.name())));
}

#[test]
fn keys_that_stand_twice() {
    changed(
        "kv_heads = \"tensor\"\nmlp",
        "kv_heads = \"tensor\"\nembed = \"tensor\"\nmlp",
        "error[duplicate-key]: m.toml:7: `embed`: duplicate key; first defined at m.toml:5\n  \
         hint: leave out one of them",
    );
    problems("[mesh]\na 3\n", None, "error[syntax]: m.toml:2: key with no value, expected `=`");
}

#[test]
fn a_file_extends_another() {
    let text = "extends = \"base.toml\"\n[mesh]\ntensor = 4\n[store]\nmlp = \"none\"\n";
    let (report, problems) = report(&[("base.toml", FSDP_TENSOR), ("m.toml", text)], None);
    assert_eq!(problems, "");
    let plan = report.plan.unwrap();
    assert_eq!(plan.mesh.to_string(), "fsdp 4 x tensor 4");
    let up = plan.get("model.layers.*.mlp.up_proj.weight").unwrap();
    let lines: Vec<_> = up.dims.iter().filter_map(|split| split.location.as_ref()).collect();
    let files: Vec<_> =
        lines.iter().map(|p| (Path::new(&p.file).file_name().unwrap().to_str().unwrap(), p.line)).collect();
    assert_eq!(files, [("m.toml", Some(5)), ("base.toml", Some(5))]);
}

#[test]
fn files_that_cannot_be_extended() {
    let (_, text) =
        report(&[("m.toml", "extends = \"b.toml\"\n[mesh]\n"), ("b.toml", "extends = \"m.toml\"\n")], None);
    assert_eq!(
        text,
        "error[extends-circle]: b.toml:1: `extends`: circular `extends`: m.toml -> b.toml -> m.toml\n  \
         hint: leave out one `extends`"
    );
    problems(
        "extends = \"b.toml\"\n[mesh]\n",
        None,
        "error[extends-missing]: m.toml:1: `extends`: cannot read b.toml: No such file or directory (os error 2)\n  \
         hint: the name is relative to the folder of this file",
    );
}

#[test]
fn a_policy_lets_pass_and_tells_what_it_costs() {
    let noted = |policy: &str, text: &str| {
        let text = format!("{text}[policy]\n{policy}\n");
        let (report, problems) = report(&[("m.toml", &text)], None);
        assert_eq!(problems, "");
        let notes: Vec<_> =
            report.notes.iter().map(|note| (note.message.clone(), note.device_bytes)).collect();
        let key = report
            .plan
            .unwrap()
            .get("model.layers.*.self_attn.k_proj.weight")
            .unwrap()
            .shard_shape()
            .to_string();
        (notes, key)
    };
    let three = "[mesh]\nt = 3\n[store]\nkv_heads = \"t\"\n";
    let hit = "kv_heads of 8 cannot be sharded over t (3): layers.*.self_attn.k_proj, layers.*.self_attn.k_proj.lora_B";
    let whole = 4 * (2 * 8 * 16 * 64 + 2 * 4 * 8 * 16);
    let (notes, key) = noted("indivisible = \"replicate\"", three);
    assert_eq!(notes, [(format!("is replicated: {hit}"), whole - whole / 3)]);
    assert_eq!(key, "f32[2,8,16,64]");
    let (notes, key) = noted("indivisible = \"pad\"", three);
    assert_eq!(notes, [(format!("is padded to 9: {hit}"), whole / 8 * 3 / 9)]);
    assert_eq!(key, "f32[2,3,16,64]");
    let (notes, key) =
        noted("axis_conflict = \"replicate\"", "[mesh]\nt = 2\n[store]\nkv_heads = \"t\"\nembed = \"t\"\n");
    let conflict = "is replicated: mesh axis t (2) already shards kv_heads and cannot shard embed: layers.*.self_attn.k_proj";
    assert_eq!(notes, [(conflict.to_owned(), 0)]);
    assert_eq!(key, "f32[2,4,16,64]");
    let (notes, _) = noted("unused_axis = \"replicate\"", "[mesh]\nt = 2\n");
    assert_eq!(notes, [("shards nothing: 2 groups of devices would do the same work".to_owned(), 0)]);
}

#[test]
fn the_batch_has_one_number_of_shards_under_every_policy() {
    for policy in ["replicate", "pad"] {
        let text =
            format!("[mesh]\ndata = 4\n[compute]\nbatch = \"data\"\n[policy]\nindivisible = {policy:?}\n");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("m.toml");
        std::fs::write(&file, text).unwrap();
        let loaded = load(&file).unwrap();
        let plan = loaded.plan(&tensors(), 4).unwrap();
        let even = loaded.batch_shards(4);
        assert_eq!((even, plan.batch_shards(even), plan.batch_shards(3 * even)), (4, 4, 4), "{policy}");
        let uneven = if policy == "pad" { 4 } else { 1 };
        assert_eq!(plan.batch_shards(6), uneven, "{policy}");
        let labels = plan.assign(&Tensor {
            name: "labels".into(),
            group: TensorGroup::Batch,
            dims: vec![(Dim::Batch, 6), (Dim::Seq, 3)],
            dtype: DType::S32,
            rules: RuleSet::Compute,
        });
        assert_eq!(labels.num_shards(), plan.batch_shards(6), "{policy}");
    }
}

/// A loop in small: what is at rest becomes what is computed with, and one result lies at rest again.
#[test]
fn tags_become_annotations_for_both_partitioners() {
    let plan = plan(FSDP_TENSOR);
    let module = ModuleBuilder::new();
    let at_rest = LogicalSharding::at_rest([Dim::Mlp, Dim::Embed], "model.layers.*.mlp.up_proj.weight");
    let called = module.define("called", |b| {
        let x = b.parameter("x", ArrayShape::new(DType::F32, [96, 64]));
        x.with_logical_sharding(LogicalSharding::compute([Dim::Mlp, Dim::Embed])) * 2.0
    });
    let entry = module.define("main", |b| {
        let weight = b
            .parameter("weight", ArrayShape::new(DType::F32, [96, 64]))
            .with_logical_sharding(at_rest.clone());
        let computed = weight.with_logical_sharding(at_rest.in_compute());
        let doubled =
            b.call(called.unwrap(), &[computed]).named("doubled").with_logical_sharding(at_rest.clone());
        b.tuple(&[doubled, b.scalar(DType::F32, 1.0)])
    });
    let annotated = annotate(module.finish("m", entry.unwrap(), vec![]), &plan);
    let text = text::print_with(verify(annotated).unwrap().module(), MetadataText::Hidden);
    let expect = r##"HloModule m, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["fsdp"=4, "tensor"=2]>}}

called {
  x.0 = f32[96,64] parameter(0)
  x.0.sharding.0 = f32[96,64] custom-call(x.0), custom_call_target="Sharding", sharding={replicated}, frontend_attributes={xla.sdy.sharding="#sdy.sharding_per_value<[<@mesh, [{}, {}]>]>"}
  constant.1 = f32[] constant(2)
  broadcast.2 = f32[96,64] broadcast(constant.1), dimensions={}
  ROOT multiply.3 = f32[96,64] multiply(x.0.sharding.0, broadcast.2)
}

ENTRY main {
  weight.0 = f32[96,64] parameter(0), sharding={devices=[2,4]<=[4,2]T(1,0)}, frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\"tensor\"}, {\"fsdp\"}]>"}
  weight.0.sharding.0 = f32[96,64] custom-call(weight.0), custom_call_target="Sharding", sharding={replicated}, frontend_attributes={xla.sdy.sharding="#sdy.sharding_per_value<[<@mesh, [{}, {}]>]>"}
  doubled.1 = f32[96,64] call(weight.0.sharding.0), to_apply=called
  doubled.1.sharding.0 = f32[96,64] custom-call(doubled.1), custom_call_target="Sharding", sharding={devices=[2,4]<=[4,2]T(1,0)}, frontend_attributes={xla.sdy.sharding="#sdy.sharding_per_value<[<@mesh, [{\"tensor\"}, {\"fsdp\"}]>]>"}
  constant.2 = f32[] constant(1)
  ROOT tuple.3 = (f32[96,64], f32[]) tuple(doubled.1.sharding.0, constant.2), sharding={{devices=[2,4]<=[4,2]T(1,0)}, {replicated}}
}
"##;
    assert_eq!(text, expect);
}

/// A module in which two products of the same shape are resharded, the second in a call, and the `op_name` of each
/// constraint once the call is inlined.
fn resharded(plan: &Plan) -> (Module, Vec<String>) {
    let module = ModuleBuilder::new();
    let shape = ArrayShape::new(DType::F32, [8, 32, 8, 16]);
    let logical = || LogicalSharding::compute([Dim::Batch, Dim::Seq, Dim::KvHeads, Dim::HeadDim]);
    let called = module.define("called", |b| {
        let x = b.parameter("x", shape.clone());
        b.named_scope("k_proj", || (x * 2.0).named("k")).with_logical_sharding(logical())
    });
    let entry = module.define("main", |b| {
        let x = b.parameter("x", shape.clone());
        let y = b.named_scope("q_proj", || (x * 3.0).named("q")).with_logical_sharding(logical());
        b.named_scope("layers", || b.call(called.unwrap(), &[y]))
    });
    let annotated = annotate(module.finish("m", entry.unwrap(), vec![]), plan);
    let names = annotated.inlined_op_names().into_iter().map(|found| found.path.to_string());
    let names = names.filter(|path| path.ends_with("/sharding_constraint")).collect();
    (annotated, names)
}

#[test]
fn a_constraint_has_the_path_of_its_value() {
    let (_, names) = resharded(&plan(FSDP_TENSOR));
    assert_eq!(names, ["q_proj/q/sharding_constraint", "layers/k_proj/k/sharding_constraint"]);
}

#[test]
fn a_warning_of_the_partitioner_names_the_value_by_its_path() {
    let plan = plan(FSDP_TENSOR);
    let (module, names) = resharded(&plan);
    let warning = |metadata: &str| {
        let warning = format!(
            "[SPMD] Involuntary full rematerialization. The compiler was not able to go from sharding \
             {{devices=[1,1]<=[1]}} to {{devices=[9]<=[9]}} for HLO operation: %c = f32[8,32,8,16] \
             custom-call(%k){metadata}."
        );
        explain_warnings(vec![warning], &module, Some(&plan)).remove(0)
    };
    for (name, value) in names.iter().zip(["q", "k"]) {
        let expect = format!(
            "the partitioner cannot reshard from {{devices=[1,1]<=[1]}} to {{devices=[9]<=[9]}} directly: every \
             device temporarily holds all of `{value}`, f32[8,32,8,16]"
        );
        let found = warning(&format!(", metadata={{op_name=\"{name}\"}}"));
        assert_eq!(found.lines().next(), Some(expect.as_str()));
    }
    let unknown = warning(", metadata={op_name=\"elsewhere\"}");
    assert!(unknown.ends_with("all of `elsewhere`"), "{unknown}");
    assert!(warning("").ends_with("all of `a tensor`"));
}
