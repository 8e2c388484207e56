//! How fast weights in bfloat16 are quantized: at least 200 MB/s for each core. `cargo bench --bench quantize` uses all cores,
//! with `RAYON_NUM_THREADS=1` one.

use std::{collections::BTreeMap, hint::black_box};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use hloom::{
    base::{ArrayShape, DType, Literal, Scheme},
    weights::{Checkpoint, write_safetensors},
};

const ROWS: usize = 2048;
const COLUMNS: usize = 2048;

/// Values between -1 and 1, of a generator that any order of blocks leaves as they are.
fn weight() -> Literal {
    let mut state = 1_u32;
    let values = (0..ROWS * COLUMNS).map(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(state) / f64::from(1_u32 << 31) - 1.0
    });
    Literal::from_f64s(ArrayShape::new(DType::BF16, [ROWS, COLUMNS]), values.collect::<Vec<_>>())
}

fn quantize(c: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let tensors = BTreeMap::from([("w".to_owned(), weight())]);
    write_safetensors(&path, &tensors, &BTreeMap::new()).unwrap();
    let checkpoint = Checkpoint::open(&path).unwrap();
    let mut group = c.benchmark_group("quantize");
    group.throughput(Throughput::Bytes((2 * ROWS * COLUMNS) as u64)).sample_size(10);
    for &scheme in Scheme::ALL {
        group.bench_function(scheme.name(), |b| {
            b.iter(|| black_box(checkpoint.parts("w", scheme).unwrap()));
        });
    }
    group.finish();
}

criterion_group!(benches, quantize);
criterion_main!(benches);
