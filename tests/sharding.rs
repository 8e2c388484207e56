//! Tensors on the devices of a mesh: what each device holds, that nothing is lost on the way, and what is said where the
//! partitioner cannot do what a mesh config asks for.

use std::path::Path;

use hloom::{
    base::{ArrayShape, DType, Literal, MemorySpace},
    hlo::{ModuleBuilder, Sharding, verify},
    mesh::{self, Dim, LogicalSharding, Plan, WithLogicalSharding},
    model::{LoraSpec, Param, PartId, base_params},
    pjrt::ProgramFormat,
    runtime::{DeviceMesh, Engine},
    step::{Role, Slot, StepProgram, StepSpec, Workload},
    templates::TemplateLibrary,
    testing::{CpuBuild, cpu_plugin},
    train::{Model, Trainer, initial_factors},
};

use crate::support::Random;

/// A mesh config, given as text, for devices of the CPU.
fn devices(text: &str) -> DeviceMesh {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mesh.toml");
    std::fs::write(&file, text).unwrap();
    DeviceMesh::new(None, Some(mesh::load(&file).unwrap())).unwrap()
}

fn model() -> Model {
    Model::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/llama31")).unwrap()
}

/// Does something with the small model and fresh adapters on the devices.
fn on<T>(devices: &DeviceMesh, model: &Model, look: impl FnOnce(&Trainer<'_>, Option<&Plan>) -> T) -> T {
    let lora = LoraSpec::all_linear(4, 8.0).resolve(&model.config).unwrap();
    let workload = Workload::new(&model.config, &lora, DType::F32, devices.batch_shards(), 16);
    let plan = devices.plan(workload).unwrap_or_else(|problems| panic!("{problems}"));
    let templates = TemplateLibrary::embedded();
    let spec = StepSpec { mesh: plan.as_ref(), ..StepSpec::new(workload, &templates) };
    let engine = Engine::start(cpu_plugin(CpuBuild::Pinned), devices.target(), ProgramFormat::Hlo).unwrap();
    let mut trainer = Trainer::new(engine, spec, &model.checkpoint, |_| ()).unwrap();
    trainer.start(&initial_factors(&model.config, &lora, 0)).unwrap();
    look(&trainer, plan.as_ref())
}

#[test]
fn each_device_holds_what_check_says() {
    let model = model();
    for name in ["data8", "fsdp8", "fsdp4-tensor2", "data2-fsdp2-tensor2", "fsdp2"] {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("mesh-configs/{name}.toml"));
        let devices = DeviceMesh::new(None, Some(mesh::load(&file).unwrap())).unwrap();
        on(&devices, &model, |trainer, plan| {
            let mesh::DeviceBytes { base, adapters, optimizer } = plan.unwrap().device_bytes();
            let expected = vec![base + adapters + optimizer; devices.target().devices()];
            assert_eq!(trainer.device_bytes().unwrap(), expected, "{name}");
        });
    }
}

#[test]
fn weights_are_the_same_however_they_lie() {
    let model = model();
    let params: Vec<Param> = base_params(&model.config).iter().map(|spec| spec.param).collect();
    let weights = |devices: &DeviceMesh| -> Vec<Literal> {
        on(devices, &model, |trainer, _| {
            params.iter().map(|&param| trainer.get(Role::Base(PartId::whole(param))).unwrap()).collect()
        })
    };
    let whole = weights(&DeviceMesh::new(None, None).unwrap());
    let policy = "[policy]\nindivisible = \"pad\"\n";
    for split in [
        "[mesh]\nx = 4\n[store]\nembed = \"x\"\n[compute]\nbatch = \"x\"\n",
        // Rows that do not lie beside each other on disk.
        "[mesh]\nx = 2\ny = 2\n[store]\nhead_dim = \"x\"\nkv_heads = \"y\"\nheads = \"y\"\n",
        "[mesh]\nx = 3\n[store]\nvocab = \"x\"\nmlp = \"x\"\nheads = \"x\"\n",
        "[mesh]\nx = 2\ny = 3\n[store]\nembed = [\"y\", \"x\"]\n",
    ] {
        let found = weights(&devices(&format!("{split}{policy}")));
        for (param, (whole, found)) in params.iter().zip(whole.iter().zip(&found)) {
            assert_eq!(whole, found, "{param:?} under\n{split}");
        }
    }
}

#[test]
fn what_goes_to_the_devices_comes_back() {
    let mesh = devices("[mesh]\nx = 8\n[compute]\nbatch = \"x\"\n");
    let engine = Engine::start(cpu_plugin(CpuBuild::Pinned), mesh.target(), ProgramFormat::Hlo).unwrap();
    let mut random = Random::named("shards");
    for _ in 0..100 {
        let rank = random.below(4);
        let sizes: Vec<usize> = (0..rank).map(|_| 1 + random.below(9)).collect();
        // Eight devices as 2 x 2 x 2, each axis on some dimension or on none.
        let mut dims: Vec<Vec<usize>> = vec![vec![]; rank];
        for axis in 0..3 {
            if let Some(dim) = dims.get_mut(random.below(rank + 1)) {
                dim.push(axis);
            }
        }
        let sharding = Sharding::on_mesh(&[2, 2, 2], &dims);
        let values = random.array(DType::F32, &sizes, 1.0);
        let dims = sizes.iter().map(|&size| (Dim::Embed, size)).collect();
        let sharding_of = sharding.clone();
        let slot = Slot {
            role: Role::Loss,
            dims,
            dtype: DType::F32,
            sharding: sharding_of,
            memory: MemorySpace::Device,
        };
        let placed = engine.upload(&slot, &values).unwrap();
        let shard = sharding.shard_shape(values.shape()).unwrap();
        assert!(placed.shards().iter().all(|buffer| *buffer.shape() == shard), "{sharding}");
        assert_eq!(placed.to_literal().unwrap(), values, "{sharding} of {sizes:?}");
    }
}

#[test]
fn a_value_of_another_shape_is_refused() {
    let engine = Engine::start(
        cpu_plugin(CpuBuild::Pinned),
        DeviceMesh::new(None, None).unwrap().target(),
        ProgramFormat::Hlo,
    )
    .unwrap();
    let dims = vec![(Dim::Embed, 3)];
    let slot = Slot {
        role: Role::Loss,
        dims,
        dtype: DType::F32,
        sharding: Sharding::Replicated,
        memory: MemorySpace::Device,
    };
    let error = engine.upload(&slot, &Literal::f32s([2], &[1.0, 2.0])).unwrap_err();
    assert_eq!(error.to_string(), "expected `loss` to be f32[3], found f32[2]");
    let of_a_matrix = Sharding::on_mesh(&[2], &[vec![0], vec![]]);
    let error =
        engine.upload(&Slot { sharding: of_a_matrix, ..slot }, &Literal::f32s([3], &[0.0; 3])).unwrap_err();
    assert_eq!(error.to_string(), "invalid sharding of `loss`: {devices=[2,1]<=[2]}");
}

/// Two ways to lie between which XLA knows no other way than to have all of the value everywhere.
#[test]
fn a_warning_of_the_partitioner_names_tensor_and_line() {
    let devices = devices(
        "[mesh]\ndata = 2\nfsdp = 2\ntensor = 2\n\
         [store]\nembed = \"fsdp\"\nmlp = \"tensor\"\n[compute]\nbatch = [\"data\", \"fsdp\"]\nmlp = \"tensor\"\n",
    );
    let model = model();
    let lora = LoraSpec::all_linear(4, 8.0).resolve(&model.config).unwrap();
    let workload = Workload::new(&model.config, &lora, DType::F32, 4, 16);
    let plan = devices.plan(workload).unwrap().unwrap();
    let dims = [Dim::Batch, Dim::Seq, Dim::Embed];
    let module = ModuleBuilder::new();
    let entry = module.define("main", |b| {
        let x = b
            .parameter("x", ArrayShape::new(DType::F32, [4, 16, 64]))
            .with_logical_sharding(LogicalSharding::compute(dims));
        let turned = (x * 2.0)
            .named("turned")
            .with_logical_sharding(LogicalSharding::compute(dims))
            .with_logical_sharding(LogicalSharding::at_rest(dims, "table"));
        b.tuple(&[turned])
    });
    let module = mesh::annotate(module.finish("turned", entry.unwrap(), vec![]), &plan);
    let expect = [
        "the partitioner cannot reshard from {devices=[4,1,1,2]<=[8] last_tile_dim_replicate} to \
         {devices=[1,1,2,4]<=[2,2,2]T(1,0,2) last_tile_dim_replicate} directly: every device temporarily holds all of `turned`, \
         f32[4,16,64]",
        "mesh.toml:9: batch = data x fsdp",
        "mesh.toml:6: embed = fsdp",
    ];
    let module = verify(module).unwrap();
    for format in ProgramFormat::ALL {
        let program = StepProgram { module: module.clone(), inputs: vec![], outputs: vec![] };
        let engine = Engine::start(cpu_plugin(CpuBuild::Pinned), devices.target(), format).unwrap();
        let compiled = engine.compile(program, Some(&plan)).unwrap();
        let [warning] = compiled.warnings() else { panic!("{:#?}", compiled.warnings()) };
        let lines: Vec<&str> = warning.lines().map(|line| line.rsplit('/').next().unwrap_or(line)).collect();
        assert_eq!(lines, expect, "{format:?}");
    }
}
