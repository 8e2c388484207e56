//! What an HLO module does: `cargo run --example inspect_hlo -- module.hlo.txt`.

#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::{env, error::Error, fs};

use hloom::{
    analyze::{BufferKind, Executions, Memory, Traffic, collectives, flops},
    hlo::raw,
};

fn main() -> Result<(), Box<dyn Error>> {
    let file = env::args().nth(1).ok_or("usage: inspect_hlo FILE")?;
    let module = raw::parse(fs::read_to_string(&file)?, &file)?;
    println!(
        "{}: {} computations, {} instructions",
        module.name(),
        module.num_computations(),
        module.num_instructions()
    );

    let memory = Memory::of(&module);
    let peak = memory.peak(0);
    println!(
        "{} bytes at the peak, {} of parameters and {} of other results",
        peak.bytes,
        memory.total(BufferKind::Parameter, 0),
        memory.total(BufferKind::Output, 0)
    );
    let largest = memory.live_at(0, peak.position).filter(|buffer| buffer.kind == BufferKind::Temporary);
    for buffer in largest.take(10) {
        let op = buffer.op_name.unwrap_or_default();
        println!("  {} bytes: {} {op}", buffer.bytes, buffer.instr.name());
    }

    let executions = Executions::of(&module);
    for name in &executions.unknown_loops {
        eprintln!("warning: unknown trip count, the body is counted once: {name}");
    }
    let flops = flops(&module, &executions);
    println!("{:.4e} FLOPs in products, {:.4e} elementwise", flops.products, flops.elementwise);
    let moved = Traffic::of(&module).total(&executions);
    println!("{:.4e} bytes read, {:.4e} written", moved.read, moved.written);
    for collective in collectives(&module, &executions) {
        let devices = collective.groups.as_ref().and_then(|groups| groups.group_size());
        let devices = devices.map_or("all".to_owned(), |devices| devices.to_string());
        println!(
            "{} of {} bytes over {devices} devices, {} times, {}: {}",
            collective.kind,
            collective.bytes,
            collective.count,
            if collective.is_exposed() {
                "exposed".to_owned()
            } else {
                format!("beside {} others", collective.num_computing)
            },
            collective.op_name.unwrap_or(collective.instr.name()),
        );
    }
    Ok(())
}
