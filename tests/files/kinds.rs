//! The kinds of file tests that take HLO text, and the list of all kinds.

use hloom::{
    autodiff::{SavePolicy, VjpTable, backward},
    base::Partitioner,
    hlo::{
        ModuleBuilder, Verified, proto, raw, stablehlo,
        text::{self, MetadataText},
        verify,
    },
};

use super::{Input, TestResult, step};

/// A kind of file test.
pub struct Kind {
    /// The folder of its files.
    pub name: &'static str,
    /// The settings that its files may have.
    pub settings: &'static [&'static str],
    /// Makes the text that is compared.
    pub run: fn(&Input) -> TestResult<String>,
}

/// Every kind.
pub const KINDS: &[Kind] = &[
    Kind { name: "read", settings: &[], run: read },
    Kind { name: "round_trip", settings: &[], run: round_trip },
    Kind { name: "proto", settings: &[], run: through_proto },
    Kind { name: "stablehlo", settings: &["partitioner"], run: to_stablehlo },
    Kind { name: "autodiff", settings: &["wrt", "save", "metadata"], run: differentiate },
    Kind { name: "annotation", settings: step::ANNOTATION_SETTINGS, run: step::annotation },
    Kind { name: "lowering", settings: step::LOWERING_SETTINGS, run: step::lowering },
    Kind { name: "host_offload", settings: step::HOST_OFFLOAD_SETTINGS, run: step::host_offload },
];

/// The text of any HLO module, read and printed, or the diagnostics.
fn read(input: &Input) -> TestResult<String> {
    let module = match raw::parse(input.text.as_str(), &input.name) {
        Ok(module) => module,
        Err(diagnostics) => return Ok(diagnostics.to_string()),
    };
    let printed = raw::print(&module);
    let again = raw::parse(printed.as_str(), &input.name)?;
    if raw::print(&again) != printed {
        return Err(format!("{}: the printed text parses as another module:\n{printed}", input.name).into());
    }
    Ok(printed)
}

/// The printed module, or the diagnostics of the parser or verifier.
fn round_trip(input: &Input) -> TestResult<String> {
    let verified = text::parse(&input.text, &input.name).and_then(verify);
    let verified = match verified {
        Ok(verified) => verified,
        Err(diagnostics) => return Ok(diagnostics.to_string()),
    };
    let printed = text::print(&verified);
    let parsed = text::parse(&printed, &input.name)?;
    if parsed != *verified.module() {
        return Err(format!("{}: the printed text parses as another module:\n{printed}", input.name).into());
    }
    Ok(printed)
}

/// A valid module.
fn module(input: &Input) -> TestResult<Verified> {
    Ok(text::parse(&input.text, &input.name).and_then(verify)?)
}

/// The size of the encoded module, and the text of the decoded one. Its instructions have other names where two
/// computations share one, since names are unique in a proto.
fn through_proto(input: &Input) -> TestResult<String> {
    let verified = module(input)?;
    let bytes = proto::encode(&verified);
    let decoded = proto::decode(&bytes)?;
    let decoded = verify(decoded)?;
    let again = proto::decode(&proto::encode(&decoded))?;
    if again != *decoded.module() {
        return Err(format!(
            "{}: the decoded module is encoded as another:\n{}",
            input.name,
            text::print_module(&again)
        )
        .into());
    }
    Ok(format!("// {} bytes\n{}", bytes.len(), text::print(&decoded)))
}

/// The module as StableHLO, or why it has no form there.
fn to_stablehlo(input: &Input) -> TestResult<String> {
    let partitioners = [("gspmd", Partitioner::Gspmd), ("shardy", Partitioner::Shardy)];
    let partitioner = input.choice("partitioner", &partitioners, Partitioner::default())?;
    Ok(match stablehlo::print(&module(input)?, partitioner) {
        Ok(printed) => printed,
        Err(error) => format!("{error}\n  hint: {}", error.hint()),
    })
}

/// The residuals and the computations that differentiation of the entry adds, or its error.
fn differentiate(input: &Input) -> TestResult<String> {
    let policies = [
        ("nothing", SavePolicy::Nothing),
        ("dots", SavePolicy::Dots),
        ("everything", SavePolicy::Everything),
    ];
    let policy = input.choice("save", &policies, SavePolicy::Nothing)?;
    let wrt = input.numbers("wrt")?;
    let located = text::parse_located(&input.text, &input.name)?;
    let builder = ModuleBuilder::new();
    let primal = builder.import(&located, &input.name, &input.name);
    let backward = match backward(&builder, &VjpTable::default(), primal, &wrt, policy) {
        Ok(backward) => backward,
        Err(error) => return Ok(error.to_string()),
    };
    let computation = builder.get(primal);
    let residuals = backward.residuals.iter().map(|&id| computation.instr(id).name.as_str());
    let residuals: Vec<&str> = residuals.collect();
    let module = verify(builder.finish("backward", backward.computation, vec![]))?;
    let forward = &located.module.computations;
    let printed = text::print_with(module.module(), metadata(input)?);
    let added = computations(&printed, |name| forward.iter().all(|old| old.name != name));
    let residuals = if residuals.is_empty() { "none".to_owned() } else { residuals.join(", ") };
    Ok(format!("// residuals: {residuals}\n\n{added}"))
}

/// Whether the expected text has metadata, which it has not by default.
pub fn metadata(input: &Input) -> TestResult<MetadataText> {
    let choices = [("hidden", MetadataText::Hidden), ("shown", MetadataText::Shown)];
    input.choice("metadata", &choices, MetadataText::Hidden)
}

/// The computations of printed HLO text whose names are accepted.
pub fn computations(printed: &str, accepts: impl Fn(&str) -> bool) -> String {
    let name = |text: &str| {
        let head = text.strip_prefix("ENTRY ").unwrap_or(text).split_once(" {\n");
        head.map_or(String::new(), |(name, _)| name.to_owned())
    };
    let computations = printed.split("\n\n").skip(1).filter(|text| accepts(&name(text)));
    computations.map(str::trim_end).collect::<Vec<_>>().join("\n\n")
}
