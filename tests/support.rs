//! What integration tests share: programs on the CPU plugin, random numbers, and how far two results are apart.

pub mod world;

use hloom::{
    base::{ArrayShape, DType, Literal, MemorySpace, Partitioner},
    hlo::{Module, verify},
    model::{BaseStorage, LoraPlan},
    pjrt::{Arg, Client, CompileOptions, HostArray, LoadedExecutable, PjrtProgram, ProgramFormat},
    runtime::{DeviceMesh, Engine, encode},
    step::{StepSpec, Workload},
    templates::TemplateLibrary,
    testing::{CpuBuild, cpu_client, cpu_plugin},
    train::{Model, Trainer},
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;

/// The CPU plugin with one device.
pub struct Cpu(Client);

/// A program on the CPU plugin.
pub struct Function<'c> {
    client: &'c Client,
    executable: LoadedExecutable,
}

impl Cpu {
    pub fn start(build: CpuBuild) -> Self {
        Self(cpu_client(build, 1))
    }

    pub fn compile(&self, module: Module) -> Function<'_> {
        self.compile_as(ProgramFormat::Hlo, module)
    }

    pub fn compile_as(&self, format: ProgramFormat, module: Module) -> Function<'_> {
        let module = verify(module).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
        let bytes = encode(&module, format, Partitioner::default()).unwrap();
        let program = PjrtProgram { format, bytes: &bytes };
        let executable = self.0.compile(program, &CompileOptions::for_devices(1));
        Function {
            client: &self.0,
            executable: executable.unwrap_or_else(|error| panic!("{format:?}: {error}")),
        }
    }
}

impl Function<'_> {
    /// The results, one for each element of the entry's tuple.
    pub fn run(&self, arguments: &[Literal]) -> Vec<Literal> {
        let device = self.client.devices()[0].id;
        let upload = |literal: &Literal| {
            let array = HostArray {
                bytes: literal.bytes(),
                shape: literal.shape(),
                device,
                memory: MemorySpace::Device,
            };
            Arg::Donate(self.client.upload(array).unwrap())
        };
        let results = self.executable.execute(vec![arguments.iter().map(upload).collect()]).unwrap();
        results[0].iter().map(|buffer| buffer.to_literal().unwrap()).collect()
    }
}

/// The logits of a model without adapters on one device, in float32, for `ids s32[batch, seq]`.
pub fn logits(model: &Model, base: BaseStorage, ids: &Literal) -> Literal {
    let lora = LoraPlan::none(&model.config);
    let [batch, seq] = ids.shape().dims[..] else { panic!("expected rows of tokens") };
    let workload = Workload { base, ..Workload::new(&model.config, &lora, DType::F32, batch, seq) };
    let templates = TemplateLibrary::embedded();
    let devices = DeviceMesh::new(None, None).unwrap();
    let engine = Engine::start(cpu_plugin(CpuBuild::Pinned), devices.target(), ProgramFormat::Hlo).unwrap();
    let spec = StepSpec::new(workload, &templates);
    let mut trainer = Trainer::new(engine, spec, &model.checkpoint, |_| ()).unwrap();
    trainer.logits(ids).unwrap()
}

/// Numbers that depend on nothing but a name.
pub struct Random(ChaCha12Rng);

impl Random {
    pub fn named(name: &str) -> Self {
        let seed = name.bytes().fold(17_u64, |seed, byte| seed.wrapping_mul(257).wrapping_add(byte.into()));
        Self(ChaCha12Rng::seed_from_u64(seed))
    }

    pub fn below(&mut self, bound: usize) -> usize {
        self.0.random_range(0..bound)
    }

    pub fn within(&mut self, low: f64, high: f64) -> f64 {
        self.0.random_range(low..high)
    }

    pub fn shuffled<T: Clone>(&mut self, items: &[T]) -> Vec<T> {
        let mut items = items.to_vec();
        (1..items.len()).rev().for_each(|last| items.swap(last, self.below(last + 1)));
        items
    }

    /// Values within `-scale .. scale`.
    pub fn array(&mut self, dtype: DType, dims: &[usize], scale: f64) -> Literal {
        let shape = ArrayShape::new(dtype, dims);
        let values: Vec<f64> = (0..shape.elements()).map(|_| self.within(-scale, scale)).collect();
        Literal::from_f64s(shape, values)
    }
}

/// The L2 norm, NaN if any value is.
pub fn norm(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().map(|value| value * value).sum::<f64>().sqrt()
}

/// The L2 norm of the difference relative to that of `expected`.
#[track_caller]
pub fn relative_error(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let size = norm(expected.iter().copied());
    let difference = norm(found.iter().zip(expected).map(|(found, expected)| found - expected));
    if size == 0.0 { difference } else { difference / size }
}

/// The Python that the environment variable `variable` names, or `None` if it names none; then the tests that need it are
/// skipped.
pub fn python(what: &str, variable: &str) -> Option<String> {
    let python = std::env::var(variable).ok();
    if python.is_none() {
        skip(what, &format!("set {variable} to a Python that has it"));
    }
    python
}

/// Says that a test is skipped which needs `what`, and what to do about it. Fails if `HLOOM_REQUIRE` lists `what`.
pub fn skip(what: &str, remedy: &str) {
    let required =
        std::env::var("HLOOM_REQUIRE").is_ok_and(|names| names.split(',').any(|name| name == what));
    assert!(!required, "{what} is required here: {remedy}");
    // The test harness swallows what the print macros write.
    let skipped = format!("SKIPPED a test that needs {what}: {remedy}\n");
    std::io::Write::write_all(&mut std::io::stderr(), skipped.as_bytes()).unwrap();
}
