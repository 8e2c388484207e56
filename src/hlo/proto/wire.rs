//! Checks of the wire format before messages are decoded.

use prost::{
    DecodeError,
    bytes::Buf,
    encoding::{self, DecodeContext, WireType},
};

/// Field numbers of `HloModuleProto.computations` and `HloComputationProto.instructions`.
const COMPUTATIONS: u32 = 3;
const INSTRUCTIONS: u32 = 2;

/// Bytes of the shortest valid instruction: a name of one letter, an opcode of three letters and a shape.
const MIN_INSTRUCTION: usize = 3 + 5 + 4;

/// The size of the first instruction that is too short to be valid, if there is one. A decoded instruction takes a
/// thousand times the memory of an empty one of two bytes.
pub(super) fn short_instruction(module: &[u8]) -> Result<Option<usize>, DecodeError> {
    let mut short = None;
    each(module, COMPUTATIONS, |computation| {
        each(computation, INSTRUCTIONS, |instruction| {
            if instruction.len() < MIN_INSTRUCTION {
                short.get_or_insert(instruction.len());
            }
            Ok(())
        })
    })?;
    Ok(short)
}

/// Calls `found` with the bytes of each message under `field`.
fn each(
    mut message: &[u8],
    field: u32,
    mut found: impl FnMut(&[u8]) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    while message.has_remaining() {
        let (logical, wire_type) = encoding::decode_key(&mut message)?;
        if (logical, wire_type) != (field, WireType::LengthDelimited) {
            encoding::skip_field(wire_type, logical, &mut message, DecodeContext::default())?;
            continue;
        }
        let length = encoding::decode_varint(&mut message)?;
        let inside = usize::try_from(length).ok().and_then(|length| message.split_at_checked(length));
        // The message decoder reports this error.
        let Some((inside, rest)) = inside else { return Ok(()) };
        found(inside)?;
        message = rest;
    }
    Ok(())
}
