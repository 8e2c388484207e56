//! Which message a file holds: a module, or a message around one.

use prost::{
    DecodeError, Message,
    bytes::Bytes,
    encoding::{self, DecodeContext, WireType},
};

use super::{
    describe::{Descriptor, Nested},
    messages::{
        HloModuleConfigProto, HloModuleProto, HloModuleProtoWithConfig, HloProto, HloSnapshot,
        HloUnoptimizedSnapshot,
    },
};

/// A module and what its file says about it.
pub(super) struct File {
    pub module: HloModuleProto,
    pub config: Option<HloModuleConfigProto>,
    /// The message that the file is.
    pub message: &'static Descriptor,
}

/// Decodes a file: `HloModuleProto`, `HloModuleProtoWithConfig`, `HloProto`, `HloSnapshot` or `HloUnoptimizedSnapshot`.
pub(super) fn decode(bytes: &Bytes) -> Result<File, DecodeError> {
    let top = Outline::of(bytes);
    let inner = top.first.map(Outline::of).unwrap_or_default();
    let (module, config, message) = if top.computations || !(inner.computations || holds_module(&inner)) {
        (Some(HloModuleProto::decode(bytes.clone())?), None, HloModuleProto::message())
    } else if !inner.computations {
        let snapshot = HloSnapshot::decode(bytes.clone())?;
        (snapshot.hlo.and_then(|hlo| hlo.hlo_module), None, HloSnapshot::message())
    } else if top.version {
        let snapshot = HloUnoptimizedSnapshot::decode(bytes.clone())?;
        (snapshot.hlo_module, None, HloUnoptimizedSnapshot::message())
    } else if top.second {
        let file = HloModuleProtoWithConfig::decode(bytes.clone())?;
        (file.hlo_module, file.config, HloModuleProtoWithConfig::message())
    } else {
        (HloProto::decode(bytes.clone())?.hlo_module, None, HloProto::message())
    };
    let message = message.expect("a message describes itself");
    Ok(File { module: module.unwrap_or_default(), config, message })
}

fn holds_module(outline: &Outline<'_>) -> bool {
    outline.first.is_some_and(|first| Outline::of(first).computations)
}

/// The first fields of a message, as far as they tell messages around modules apart.
#[derive(Default)]
struct Outline<'b> {
    /// Field 1: the name of a module, or a message.
    first: Option<&'b [u8]>,
    /// Whether there is a field 2 that is a message or a text.
    second: bool,
    /// Whether there is a field 3 that is a number: the version of a snapshot.
    version: bool,
    /// Whether it is a module: field 3 of one is a computation, which has a name and instructions.
    computations: bool,
}

impl<'b> Outline<'b> {
    /// Empty if the bytes are no message.
    fn of(bytes: &'b [u8]) -> Self {
        let mut found = Self::default();
        let walked = each_field(bytes, |number, value| {
            match (number, value) {
                (1, Value::Bytes(bytes)) if found.first.is_none() => found.first = Some(bytes),
                (2, Value::Bytes(_)) => found.second = true,
                (3, Value::Number { .. }) => found.version = true,
                (3, Value::Bytes(bytes)) if !found.computations => {
                    let mut instructions = false;
                    let inside = each_field(bytes, |number, value| {
                        instructions |= number == 2 && matches!(value, Value::Bytes(_));
                    });
                    found.computations = instructions && inside.is_ok() && is_named(bytes);
                }
                _ => {}
            };
        });
        if walked.is_ok() { found } else { Self::default() }
    }
}

/// The number of instructions of a serialized computation.
pub(super) fn num_instructions(computation: &[u8]) -> usize {
    let mut count = 0;
    let _ = each_field(computation, |number, value| {
        count += usize::from(number == 2 && matches!(value, Value::Bytes(_)));
    });
    count
}

/// Whether a computation begins with a name. In a buffer assignment, messages are in its place.
fn is_named(computation: &[u8]) -> bool {
    let mut named = false;
    let _ = each_field(computation, |number, value| {
        if let (1, Value::Bytes(name)) = (number, value) {
            named = name.iter().all(|byte| byte.is_ascii_graphic());
        }
    });
    named
}

/// The value of a field.
pub(super) enum Value<'b> {
    /// A message, a text, bytes or a packed list.
    Bytes(&'b [u8]),
    /// A number, and whether it is zero.
    Number { is_zero: bool },
}

/// Bytes that do not follow the wire format. Decoding them says where.
pub(super) struct NotAMessage;

/// Calls `found` with each field of a message.
pub(super) fn each_field<'b>(
    mut message: &'b [u8],
    mut found: impl FnMut(u32, Value<'b>),
) -> Result<(), NotAMessage> {
    while !message.is_empty() {
        let (number, wire_type) = encoding::decode_key(&mut message).map_err(|_| NotAMessage)?;
        if wire_type == WireType::LengthDelimited {
            let length = encoding::decode_varint(&mut message).map_err(|_| NotAMessage)?;
            let length = usize::try_from(length).ok().filter(|&length| length <= message.len());
            let length = length.ok_or(NotAMessage)?;
            let (inside, rest) = message.split_at(length);
            found(number, Value::Bytes(inside));
            message = rest;
            continue;
        }
        let before = message;
        encoding::skip_field(wire_type, number, &mut message, DecodeContext::default())
            .map_err(|_| NotAMessage)?;
        let bytes = &before[..before.len() - message.len()];
        found(number, Value::Number { is_zero: bytes.iter().all(|&byte| byte & 0x7f == 0) });
    }
    Ok(())
}
