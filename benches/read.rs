//! How fast HLO text of the kind that XLA dumps is read, on one core: at least 100 MB/s, with at most 4 bytes of memory for each of
//! the text. `cargo bench --bench read`.

use std::{fmt::Write, hint::black_box};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use hloom::hlo::raw;

/// A scheduled module of about so many bytes: computations of 2,000 instructions with layouts, metadata and matrix products.
fn dense(bytes: usize) -> String {
    let mut text = String::from("HloModule dense, is_scheduled=true\n\n");
    let mut computation = 0;
    while text.len() < bytes {
        let _ = writeln!(text, "%region_{computation} (x: f32[128,256], w: f32[256,256]) -> f32[128,256] {{");
        text.push_str(
            "  %v.0 = f32[128,256]{1,0:T(8,128)} parameter(0)\n  %w = f32[256,256]{1,0} parameter(1)\n",
        );
        for index in 1..2000 {
            let last = index - 1;
            let (opcode, operands, attrs) = match index % 4 {
                0 => ("add", format!("%v.{last}, %v.{}", index / 2), ""),
                1 => {
                    ("dot", format!("%v.{last}, %w"), ", lhs_contracting_dims={1}, rhs_contracting_dims={0}")
                }
                2 => ("exponential", format!("%v.{last}"), ""),
                _ => ("copy", format!("%v.{last}"), ", control-predecessors={%v.0}"),
            };
            let root = if index == 1999 { "ROOT " } else { "" };
            let _ = writeln!(
                text,
                "  {root}%v.{index} = f32[128,256]{{1,0:T(8,128)}} {opcode}({operands}){attrs}, \
                 metadata={{op_name=\"jit(step)/layers/mlp/{opcode}\" stack_frame_id={}}}",
                index % 50
            );
        }
        text.push_str("}\n\n");
        computation += 1;
    }
    text.push_str("ENTRY %main {\n  ROOT %x = f32[] parameter(0)\n}\n");
    text
}

fn read(c: &mut Criterion) {
    let one_core = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread starts");
    let mut group = c.benchmark_group("hlo::raw");
    group.sample_size(10);
    for megabytes in [1, 100] {
        let text = dense(megabytes * 1_000_000);
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(format!("parse {megabytes} MB"), |b| {
            b.iter_batched(
                || text.clone(),
                |text| {
                    one_core.install(|| raw::parse(black_box(text), "dense.hlo").expect("the text is valid"))
                },
                criterion::BatchSize::PerIteration,
            );
        });
        let module = raw::parse(text.as_str(), "dense.hlo").expect("the text is valid");
        group.bench_function(format!("print {megabytes} MB"), |b| b.iter(|| raw::print(black_box(&module))));
    }
    group.finish();
}

criterion_group!(benches, read);
criterion_main!(benches);
