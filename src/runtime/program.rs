use crate::{
    base::Partitioner,
    hlo::{
        Verified, proto,
        stablehlo::{self, StablehloError},
    },
    pjrt::ProgramFormat,
};

/// Encodes a module in one of the formats that plugins take. An HLO proto has the shardings of both partitioners; StableHLO
/// has those of `partitioner`.
///
/// # Errors
/// Those of [`stablehlo::print_with_locations`]; none for a proto.
pub fn encode(
    module: &Verified,
    format: ProgramFormat,
    partitioner: Partitioner,
) -> Result<Vec<u8>, StablehloError> {
    match format {
        ProgramFormat::Hlo => Ok(proto::encode(module)),
        ProgramFormat::Mlir => Ok(stablehlo::print_with_locations(module, partitioner)?.into_bytes()),
    }
}
