//! The boundary against two real plugins, of the newest and of the oldest API that hloom takes.

use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::base::{ArrayShape, DType, Literal, MemorySpace, Partitioner};
use crate::testing::{CpuBuild, cpu_client, cpu_plugin, cpu_plugin_path};

/// StableHLO of `(state + input, state * input)`, where the first result takes the memory of `state`.
const STEP: &str = r#"
module @step {
  func.func @main(%state: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %input: tensor<4xf32>)
      -> (tensor<4xf32>, tensor<4xf32>) {
    %sum = stablehlo.add %state, %input : tensor<4xf32>
    %product = stablehlo.multiply %state, %input : tensor<4xf32>
    return %sum, %product : tensor<4xf32>, tensor<4xf32>
  }
}
"#;

/// StableHLO of a product of four matrices, which needs memory for intermediate values.
const PRODUCTS: &str = r#"
module @products {
  func.func @main(%a: tensor<256x256xf32>) -> tensor<256x256xf32> {
    %b = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0]
      : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    %c = stablehlo.dot_general %b, %b, contracting_dims = [0] x [1]
      : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    %d = stablehlo.dot_general %c, %b, contracting_dims = [1] x [0]
      : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    return %d : tensor<256x256xf32>
  }
}
"#;

/// StableHLO of the sum of a row-split matrix: every device holds one row, all get the total.
const SHARDED_SUM: &str = r#"
module @sharded_sum attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  func.func @main(%x: tensor<8x4xf32> {mhlo.sharding = "{devices=[8,1]<=[8]}"})
      -> (tensor<8x4xf32> {mhlo.sharding = "{devices=[8,1]<=[8]}"},
          tensor<f32> {mhlo.sharding = "{replicated}"}) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %total = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0, 1]
      : (tensor<8x4xf32>, tensor<f32>) -> tensor<f32>
    %twice = stablehlo.add %x, %x : tensor<8x4xf32>
    return %twice, %total : tensor<8x4xf32>, tensor<f32>
  }
}
"#;

/// StableHLO for the Shardy partitioner: every device doubles its row.
const SHARDY: &str = r#"
module @shardy {
  sdy.mesh @mesh = <["rows"=8]>
  func.func @main(%x: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"rows"}, {}]>})
      -> (tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"rows"}, {}]>}) {
    %twice = stablehlo.add %x, %x : tensor<8x4xf32>
    return %twice : tensor<8x4xf32>
  }
}
"#;

/// An `HloModuleProto` that adds two `f32[4]`, as `testdata/add.txt` says it.
const ADD_PROTO: &[u8] = include_bytes!("testdata/add.pb");

fn mlir(text: &str) -> PjrtProgram<'_> {
    PjrtProgram { format: ProgramFormat::Mlir, bytes: text.as_bytes() }
}

fn compile(client: &Client, text: &str) -> LoadedExecutable {
    client.compile(mlir(text), &CompileOptions::default()).unwrap()
}

fn upload(client: &Client, literal: &Literal, device: usize) -> Buffer {
    let device = client.devices()[device].id;
    client
        .upload(HostArray {
            bytes: literal.bytes(),
            shape: literal.shape(),
            device,
            memory: MemorySpace::Device,
        })
        .unwrap()
}

fn vector(values: [f32; 4]) -> Literal {
    Literal::f32s([4], &values)
}

fn values(buffer: &Buffer) -> Vec<f64> {
    buffer.to_literal().unwrap().to_f64s()
}

/// Runs a test body on a client of each plugin, and checks that it leaves no buffer behind.
fn on_each(devices: i64, body: impl Fn(CpuBuild, &Client)) {
    for &build in CpuBuild::ALL {
        let client = cpu_client(build, devices);
        body(build, &client);
        assert_eq!(client.live_buffers(), 0, "{build:?}: live buffers");
    }
}

#[test]
fn plugins_and_clients_say_what_they_are() {
    on_each(8, |build, client| {
        let expected = match build {
            CpuBuild::Pinned => (0, 115),
            CpuBuild::Api081 => (0, 81),
        };
        assert_eq!(client.plugin().api_version(), expected);
        assert_eq!(client.platform(), "cpu");
        assert!(!client.platform_version().is_empty());
        assert_eq!(client.devices().len(), 8);
        assert!(client.devices().iter().all(|device| device.process_index == 0 && device.kind == "cpu"));
        assert!(client.plugin().attributes().unwrap().contains_key("xla_version"));
        assert!(Arc::ptr_eq(client.plugin(), &cpu_plugin(build)), "loaded once");
    });
}

#[test]
fn a_donated_buffer_moves_and_a_kept_one_stays() {
    on_each(1, |_, client| {
        let step = compile(client, STEP);
        let input = upload(client, &vector([1.0, 2.0, 3.0, 4.0]), 0);
        let mut state = upload(client, &vector([10.0, 20.0, 30.0, 40.0]), 0);
        for round in 1..=3 {
            let mut outputs = step.execute(vec![vec![Arg::Donate(state), Arg::Keep(&input)]]).unwrap();
            assert_eq!(client.live_buffers(), 3, "input, state, product");
            state = outputs.remove(0).remove(0);
            let factor = f64::from(10 + round);
            assert_eq!(values(&state), [factor, 2.0 * factor, 3.0 * factor, 4.0 * factor]);
        }
        assert_eq!(values(&input), [1.0, 2.0, 3.0, 4.0]);
    });
}

#[test]
fn a_kept_buffer_survives_although_the_module_would_take_it() {
    on_each(1, |_, client| {
        let step = compile(client, STEP);
        let both = upload(client, &vector([1.0, 2.0, 3.0, 4.0]), 0);
        let outputs = step.execute(vec![vec![Arg::Keep(&both), Arg::Keep(&both)]]).unwrap();
        assert_eq!(values(&outputs[0][0]), [2.0, 4.0, 6.0, 8.0]);
        assert_eq!(values(&outputs[0][1]), [1.0, 4.0, 9.0, 16.0]);
        assert_eq!(values(&both), [1.0, 2.0, 3.0, 4.0]);
    });
}

#[test]
fn eight_devices_each_hold_a_shard() {
    on_each(8, |_, client| {
        let program = client.compile(mlir(SHARDED_SUM), &CompileOptions::for_devices(8)).unwrap();
        assert_eq!(program.device_ids().len(), 8);
        let rows: Vec<Literal> = (0..8).map(|row| Literal::f32s([1, 4], &[row as f32; 4])).collect();
        let arrays: Vec<HostArray<'_>> = rows
            .iter()
            .zip(program.device_ids())
            .map(|(row, &device)| HostArray {
                bytes: row.bytes(),
                shape: row.shape(),
                device,
                memory: MemorySpace::Device,
            })
            .collect();
        let shards = client.upload_all(&arrays).unwrap();
        let outputs = program.execute(shards.iter().map(|shard| vec![Arg::Keep(shard)]).collect()).unwrap();
        for (row, (outputs, &device)) in outputs.iter().zip(program.device_ids()).enumerate() {
            assert_eq!(values(&outputs[0]), [2.0 * row as f64; 4]);
            assert_eq!(values(&outputs[1]), [4.0 * 28.0]);
            assert_eq!((outputs[0].device_id(), outputs[1].device_id()), (device, device));
        }
    });
}

#[test]
fn partitions_go_where_they_are_put() {
    on_each(4, |_, client| {
        let ids: Vec<i32> = client.devices().iter().rev().map(|device| device.id).collect();
        let options = CompileOptions { devices: ids[..2].to_vec(), ..CompileOptions::for_devices(2) };
        let program = client.compile(mlir(STEP), &options).unwrap();
        assert_eq!(program.device_ids(), &ids[..2]);
    });
}

#[test]
fn shardy_splits_too() {
    on_each(8, |_, client| {
        let mut options = CompileOptions::for_devices(8);
        options.partitioner = Partitioner::Shardy;
        let program = client.compile(mlir(SHARDY), &options).unwrap();
        let row = Literal::f32s([1, 4], &[3.0; 4]);
        let shards: Vec<Buffer> = (0..8).map(|device| upload(client, &row, device)).collect();
        let outputs = program.execute(shards.iter().map(|shard| vec![Arg::Keep(shard)]).collect()).unwrap();
        assert!(outputs.iter().all(|outputs| values(&outputs[0]) == [6.0; 4]));
    });
}

#[test]
fn a_program_takes_the_first_devices() {
    on_each(8, |_, client| {
        let step = client.compile(mlir(STEP), &CompileOptions::for_devices(2)).unwrap();
        let first: Vec<i32> = client.devices().iter().take(2).map(|device| device.id).collect();
        assert_eq!(step.device_ids(), first);
    });
}

#[test]
fn debug_options_reach_the_compiler() {
    on_each(1, |_, client| {
        let mut options = CompileOptions::default();
        options.overrides.insert("xla_cpu_enable_fast_math".into(), OptionValue::Bool(true));
        client.compile(mlir(STEP), &options).unwrap();
        options.overrides.insert("xla_no_such_option".into(), OptionValue::Int(1));
        let error = client.compile(mlir(STEP), &options).unwrap_err().to_string();
        assert!(error.contains("xla_no_such_option"), "{error}");
    });
}

#[test]
fn an_hlo_proto_compiles_and_runs() {
    on_each(1, |_, client| {
        let program = PjrtProgram { format: ProgramFormat::Hlo, bytes: ADD_PROTO };
        let add = client.compile(program, &CompileOptions::default()).unwrap();
        assert_eq!(add.executable().name().unwrap(), "add");
        let (a, b) = (vector([1.0, 2.0, 3.0, 4.0]), vector([0.5; 4]));
        let (a, b) = (upload(client, &a, 0), upload(client, &b, 0));
        let outputs = add.execute(vec![vec![Arg::Keep(&a), Arg::Keep(&b)]]).unwrap();
        assert_eq!(values(&outputs[0][0]), [1.5, 2.5, 3.5, 4.5]);
    });
}

#[test]
fn a_serialized_executable_loads_and_runs() {
    on_each(1, |_, client| {
        let bytes = compile(client, STEP).executable().serialize().unwrap();
        let step = client.deserialize(&bytes).unwrap();
        let x = upload(client, &vector([1.0, 2.0, 3.0, 4.0]), 0);
        let outputs = step.execute(vec![vec![Arg::Keep(&x), Arg::Keep(&x)]]).unwrap();
        assert_eq!(values(&outputs[0][1]), [1.0, 4.0, 9.0, 16.0]);
    });
}

#[test]
fn the_compiler_counts_memory_and_shows_its_program() {
    on_each(1, |build, client| {
        let step = compile(client, STEP);
        let memory = step.executable().memory().unwrap();
        assert_eq!((memory.arguments, memory.aliased, memory.host_arguments), (32, 16, 0));
        assert!(memory.outputs >= 32 && memory.peak >= 48, "{memory:?}");
        assert_eq!(memory.total_allocation.is_some(), build == CpuBuild::Pinned);
        assert_eq!(step.executable().num_outputs().unwrap(), 2);
        let (format, program) = step.executable().optimized_program().unwrap();
        assert_eq!(format, "hlo_with_config");
        assert!(program.windows(4).any(|window| window == b"step"));
    });
}

#[test]
fn the_total_allocation_is_all_but_what_is_shared() {
    let client = cpu_client(CpuBuild::Pinned, 1);
    let memory = compile(&client, PRODUCTS).executable().memory().unwrap();
    assert!(memory.temporaries > 0);
    let all = memory.arguments + memory.outputs - memory.aliased + memory.temporaries;
    assert_eq!(memory.total_allocation, Some(all));
}

#[test]
fn every_element_type_survives_the_round_trip() {
    on_each(1, |_, client| {
        for &dtype in DType::ALL {
            for dims in [vec![], vec![3], vec![2, 3, 4], vec![0, 5]] {
                let shape = ArrayShape::new(dtype, dims);
                let literal =
                    Literal::from_f64s(shape.clone(), (0..shape.elements()).map(|i| (i % 2) as f64));
                let buffer = upload(client, &literal, 0);
                assert_eq!(buffer.shape(), &shape);
                assert!(buffer.bytes_on_device().unwrap() >= shape.bytes());
                assert_eq!(buffer.to_literal().unwrap(), literal);
            }
        }
    });
}

#[test]
fn host_bytes_need_no_alignment() {
    on_each(1, |_, client| {
        let literal = vector([1.0, 2.0, 3.0, 4.0]);
        for shift in 0..4 {
            let shifted = [&[0xff; 3][..shift], literal.bytes()].concat();
            let array = HostArray {
                bytes: &shifted[shift..],
                shape: literal.shape(),
                device: 0,
                memory: MemorySpace::Device,
            };
            let mut back = vec![0; shift + 16];
            client.upload(array).unwrap().read_into(&mut back[shift..]).unwrap();
            assert_eq!(&back[shift..], literal.bytes());
        }
    });
}

#[test]
fn what_is_to_lie_on_the_host_is_read_back() {
    on_each(1, |_, client| {
        let literal = vector([1.0, 2.0, 3.0, 4.0]);
        let (bytes, shape) = (literal.bytes(), literal.shape());
        let array = HostArray { bytes, shape, device: 0, memory: MemorySpace::Host };
        assert_eq!(client.upload(array).unwrap().to_literal().unwrap(), literal);
    });
}

#[test]
fn what_does_not_fit_is_refused_before_the_plugin_sees_it() {
    on_each(1, |_, client| {
        let shape = ArrayShape::new(DType::F32, [4]);
        let short = HostArray { bytes: &[0; 15], shape: &shape, device: 0, memory: MemorySpace::Device };
        let error = client.upload(short).unwrap_err();
        assert_eq!(error.to_string(), "expected 16 bytes for f32[4], found 15");
        let elsewhere = HostArray { bytes: &[0; 16], shape: &shape, device: 77, memory: MemorySpace::Device };
        let error = client.upload(elsewhere).unwrap_err();
        assert_eq!(error.to_string(), "client has no device: 77");
        assert_eq!(error.hint().unwrap(), "known devices: 0");

        let step = compile(client, STEP);
        let error = step.execute(Vec::new()).unwrap_err();
        assert_eq!(error.to_string(), "expected argument lists for 1 devices, found 0");
        let x = upload(client, &vector([0.0; 4]), 0);
        assert_eq!(
            x.read_into(&mut [0; 20]).unwrap_err().to_string(),
            "expected 16 bytes for f32[4], found 20"
        );
        let other = cpu_client(CpuBuild::Pinned, 1);
        let foreign = upload(&other, &vector([0.0; 4]), 0);
        let error = step.execute(vec![vec![Arg::Keep(&x), Arg::Keep(&foreign)]]).unwrap_err();
        assert_eq!(error.to_string(), "argument buffer belongs to another client");
    });
}

#[test]
fn devices_must_donate_alike() {
    on_each(8, |_, client| {
        let program = client.compile(mlir(SHARDED_SUM), &CompileOptions::for_devices(8)).unwrap();
        let row = Literal::f32s([1, 4], &[0.0; 4]);
        let shards: Vec<Buffer> = (0..8).map(|device| upload(client, &row, device)).collect();
        let mut args: Vec<Vec<Arg<'_>>> = shards.iter().map(|shard| vec![Arg::Keep(shard)]).collect();
        args[3] = vec![Arg::Donate(upload(client, &row, 3))];
        assert_eq!(
            program.execute(args).unwrap_err().to_string(),
            "arguments of device 3: expected the same number and donation as on the first device"
        );
    });
}

#[test]
fn the_plugins_own_error_text_comes_through() {
    on_each(1, |_, client| {
        let hlo = PjrtProgram { format: ProgramFormat::Hlo, bytes: b"no proto at all" };
        let error = client.compile(hlo, &CompileOptions::default()).unwrap_err();
        assert!(matches!(&error, PjrtError::Failed { call: "PJRT_Client_Compile", .. }), "{error}");
        let error = client.compile(mlir("module {"), &CompileOptions::default()).unwrap_err();
        assert!(matches!(&error, PjrtError::Failed { message, .. } if !message.is_empty()), "{error}");
        let step = compile(client, STEP);
        let x = upload(client, &vector([0.0; 4]), 0);
        let error = step.execute(vec![vec![Arg::Keep(&x)]]).unwrap_err();
        assert!(error.to_string().starts_with("PJRT_LoadedExecutable_Execute failed with"), "{error}");
        let error = client.deserialize(b"nothing").unwrap_err();
        assert!(error.to_string().starts_with("PJRT_Executable_DeserializeAndLoad failed"), "{error}");
    });
}

#[test]
fn the_cpu_knows_no_topology() {
    for &build in CpuBuild::ALL {
        let error = Topology::create(&cpu_plugin(build), "", &[]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "PJRT_TopologyDescription_Create failed with UNIMPLEMENTED: Topology not supported for CPU \
             compilation."
        );
    }
}

#[test]
fn buffers_and_executables_outlive_the_client_value() {
    let client = cpu_client(CpuBuild::Pinned, 1);
    let step = compile(&client, STEP);
    let x = upload(&client, &vector([1.0; 4]), 0);
    drop(client);
    let outputs = step.execute(vec![vec![Arg::Keep(&x), Arg::Keep(&x)]]).unwrap();
    drop(step);
    assert_eq!(values(&outputs[0][0]), [2.0; 4]);
}

#[test]
fn several_threads_share_a_client() {
    let client = cpu_client(CpuBuild::Pinned, 1);
    let step = compile(&client, STEP);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (client, step) = (&client, &step);
            scope.spawn(move || {
                let x = upload(client, &vector([thread as f32; 4]), 0);
                let outputs = step.execute(vec![vec![Arg::Keep(&x), Arg::Keep(&x)]]).unwrap();
                assert_eq!(values(&outputs[0][0]), [2.0 * f64::from(thread); 4]);
            });
        }
    });
    assert_eq!(client.live_buffers(), 0);
}

#[test]
fn files_that_are_no_plugin_are_refused() {
    let load = |path: &Path| Plugin::load(path).unwrap_err();
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("plugin.so");
    assert!(matches!(load(&text), PjrtError::Open { .. }));
    std::fs::write(&text, "this is a text, and long enough that it could be a header").unwrap();
    let text = text.canonicalize().unwrap();
    assert_eq!(
        load(&text).to_string(),
        format!(
            "cannot load plugin: {}: expected a 64-bit little-endian ELF shared library for x86-64, found text that begins with `this is a text, and long enough that it could be a header`",
            text.display()
        )
    );
    // A shared library that every process has mapped already.
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let libc = maps.split_whitespace().find(|word| word.contains("/libc.so")).unwrap();
    let error = load(Path::new(libc));
    assert!(error.to_string().starts_with("not a PJRT plugin, it exports no `GetPjrtApi`: /"), "{error}");
    assert!(error.hint().unwrap().contains("command `plugin install "));
}

#[test]
fn a_cut_plugin_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let cut = folder.path().join("cut.so");
    let whole = std::fs::File::open(cpu_plugin_path(CpuBuild::Pinned)).unwrap();
    let mut head = std::io::Read::take(whole, 1 << 16);
    std::io::copy(&mut head, &mut std::fs::File::create(&cut).unwrap()).unwrap();
    let error = Plugin::load(&cut).unwrap_err().to_string();
    assert!(error.contains("truncated file: expected at least "), "{error}");
    assert!(error.ends_with(" bytes, found 65536"), "{error}");
}
