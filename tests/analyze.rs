//! Memory, FLOPs and bytes of modules that XLA compiled, and of a large step, against XLA's own figures and closed forms.

use hloom::{
    analyze::{BufferKind, Executions, Memory, Traffic, flops},
    base::DType,
    hlo::{raw, text},
    model::{Config, LoraSpec},
    step::{StepKind, StepSpec, Workload, build},
    templates::TemplateLibrary,
};

/// What XLA 0.10.2 for CPUs reported of a JAX function that it compiled.
struct Reported {
    text: &'static str,
    /// Arguments and results, less those that alias, and temporaries.
    memory: u64,
    /// Of one iteration of each loop.
    flops: f64,
    bytes: f64,
}

/// The gradient of dense attention, with 2 batches, 4 heads, 128 positions and heads of 64.
const ATTENTION_GRAD: Reported = Reported {
    text: include_str!("analyze/attention_grad.hlo"),
    memory: 3_149_848,
    flops: 85_459_968.0,
    bytes: 10_788_904.0,
};

/// Adam with donated parameters and moments of 512 x 512.
const ADAM_DONATED: Reported = Reported {
    text: include_str!("analyze/adam_donated.hlo"),
    memory: 4_194_328,
    flops: 2_883_584.0,
    bytes: 10_485_784.0,
};

/// The gradient of a scan of eight layers `tanh(x w)`, with x of 64 x 128.
const SCAN_GRAD: Reported = Reported {
    text: include_str!("analyze/scan_grad.hlo"),
    memory: 1_245_444,
    flops: 4_227_078.0,
    bytes: 1_736_966.0,
};

fn parse(text: &str) -> raw::Module {
    raw::parse(text, "module.hlo").unwrap_or_else(|diagnostics| panic!("{diagnostics}"))
}

#[track_caller]
fn assert_close(found: f64, expect: f64, tolerance: f64) {
    let off = found / expect - 1.0;
    assert!(off.abs() <= tolerance, "expected {expect}, found {found}, {:+.3} %", off * 100.0);
}

#[test]
fn memory_is_what_xla_allocates() {
    for reported in [ATTENTION_GRAD, ADAM_DONATED, SCAN_GRAD] {
        let module = parse(reported.text);
        let memory = Memory::of(&module);
        assert!(memory.is_scheduled);
        assert_close(memory.peak(0).bytes as f64, reported.memory as f64, 0.0003);
    }
    let module = parse(ADAM_DONATED.text);
    assert_eq!(Memory::of(&module).total(BufferKind::Parameter, 0), 4 * 512 * 512 * 4);
}

#[test]
fn buffers_know_their_source() {
    let module = parse(SCAN_GRAD.text);
    let memory = Memory::of(&module);
    let stacked = memory.buffers.iter().find(|buffer| buffer.kind == BufferKind::Temporary).unwrap();
    assert_eq!(stacked.bytes, 8 * 64 * 128 * 4, "the saved activations of all layers");
    assert_eq!(stacked.op_name, Some("jit(<lambda>)/jvp()/while"));
    let frame = stacked.stack(&module).next().unwrap();
    assert_eq!((frame.file, frame.line), ("functions.py", 20));
}

#[test]
fn flops_and_bytes_are_those_of_xla() {
    for reported in [ATTENTION_GRAD, ADAM_DONATED] {
        let module = parse(reported.text);
        let executions = Executions::of(&module);
        let found = flops(&module, &executions);
        assert_close(found.products + found.elementwise, reported.flops, 0.0001);
        assert_close(Traffic::of(&module).total(&executions).total(), reported.bytes, 0.0001);
    }
    // XLA counts each loop as one iteration.
    let module = parse(SCAN_GRAD.text);
    let found = flops(&module, &Executions::of(&module)).products;
    assert_eq!(found, 8.0 * 2.0 * 2.0 * 64.0 * 128.0 * 128.0, "two products an iteration");
    assert_close(found / 8.0, SCAN_GRAD.flops, 0.01);
    assert_eq!(SCAN_GRAD.bytes, 1_736_966.0);
}

/// Closed form of the products of a LoRA step of Llama 3.1 8B with a row of 8192 tokens, blocks of attention, and layers that are
/// run forward again in the backward pass. It is multiplied by 2 at the end.
#[test]
fn flops_of_an_8b_step_are_those_of_the_closed_form() {
    let config = Config::builtin("llama3.1-8b").unwrap();
    let lora = LoraSpec::all_linear(8, 16.0).resolve(&config).unwrap();
    let workload = Workload::new(&config, &lora, DType::BF16, 1, 8192);
    let templates = TemplateLibrary::embedded();
    let step = build(&StepSpec::new(workload, &templates), StepKind::Train)
        .unwrap_or_else(|error| panic!("{error}"));
    let module = parse(&text::print(&step.module));
    let executions = Executions::of(&module);
    assert!(executions.unknown_loops.is_empty());

    let (tokens, layers, rank) = (8192.0, 32.0, 8.0);
    let (embed, kv, mlp, vocab) = (4096.0, 1024.0, 14_336.0, 128_256.0);
    let linears =
        [(embed, embed), (embed, kv), (embed, kv), (embed, embed), (embed, mlp), (embed, mlp), (mlp, embed)];
    let frozen: f64 = linears.iter().map(|(from, to)| from * to).sum();
    let factors: f64 = linears.iter().map(|(from, to)| rank * (from + to)).sum();
    // Forward, forward again (the last linear's result is not needed), and the cotangents of the inputs.
    let frozen = tokens * layers * (3.0 * frozen - mlp * embed);
    // Those, and the gradients of the factors.
    let adapters = tokens * layers * (4.0 * factors - rank * embed);
    // The logits for the loss and for its gradient, and the cotangent.
    let head = 3.0 * tokens * embed * vocab;
    // Two products forward, twice, and five backward, for each pair of blocks that is not masked as a whole.
    let pairs = 16.0 * 17.0 / 2.0;
    let attention = 9.0 * layers * pairs * 512.0 * 512.0 * embed;
    let expect = 2.0 * (frozen + adapters + head + attention);
    assert_close(flops(&module, &executions).products, expect, 0.001);
}
