//! What a file has that HLO text cannot say.

use std::collections::BTreeMap;

use super::{
    describe::Descriptor,
    file::{Value, each_field},
};
use crate::base::{Diagnostic, Diagnostics, Location};

/// Maximum number of different warnings.
const MAX_WARNINGS: usize = 1000;

/// Maximum nesting of messages, that of the decoder.
const MAX_DEPTH: usize = 100;

/// Fields without a place in HLO text, by message. `*` are all fields but those that follow it.
const NOT_IN_TEXT: &[(&str, &[&str])] = &[
    (
        "HloModuleProto",
        &[
            "pjrt_id",
            "cross_program_prefetches",
            "is_dynamic",
            "spmd_output_sharding",
            "spmd_parameters_shardings",
            "use_auto_spmd_partitioning",
            "profile_info",
            "device_assignment",
            "device_type",
        ],
    ),
    ("HloInstructionProto", &["all_reduce_id", "is_cross_program_prefetch"]),
    (
        "OpMetadata",
        &["size_of_generated_code_in_bytes", "size_of_memory_working_set_in_bytes", "profile_info"],
    ),
    ("LiteralProto", &["sparse_indices", "dynamic_sizes"]),
    ("OpSharding", &["tile_shape"]),
    ("HloProto", &["*", "hlo_module"]),
    ("HloSnapshot", &["*", "hlo"]),
    ("HloUnoptimizedSnapshot", &["*", "hlo_module", "version"]),
    (
        "HloModuleConfigProto",
        &[
            "*",
            "entry_computation_layout",
            "replica_count",
            "num_partitions",
            "alias_passthrough_params",
            "allow_spmd_sharding_propagation_to_parameters",
            "allow_spmd_sharding_propagation_to_output",
        ],
    ),
];

fn is_in_text(message: &str, field: &str) -> bool {
    let row = NOT_IN_TEXT.iter().find(|(name, _)| *name == message);
    match row.map(|(_, fields)| *fields) {
        None => true,
        Some(["*", kept @ ..]) => kept.contains(&field),
        Some(fields) => !fields.contains(&field),
    }
}

/// A warning for each field that is unknown or has no place in HLO text, with its path and how often it occurs.
pub(super) fn unread(bytes: &[u8], message: &'static Descriptor, file: &str) -> Diagnostics {
    let mut walk = Walk { path: vec![message.name], found: BTreeMap::new() };
    walk.message(bytes, message);
    let warnings = walk.found.into_iter().map(|((path, reason), count)| {
        let times = if count == 1 { String::new() } else { format!(" ({count} times)") };
        Diagnostic::warning(Location::file(file).at(path), format!("{reason}{times}"))
    });
    Diagnostics(warnings.collect())
}

struct Walk {
    path: Vec<&'static str>,
    found: BTreeMap<(String, String), usize>,
}

impl Walk {
    /// Bytes that are no message end the walk: decoding has reported them.
    fn message(&mut self, bytes: &[u8], message: &'static Descriptor) {
        let _ = each_field(bytes, |number, value| self.field(message, number, &value));
    }

    fn field(&mut self, message: &'static Descriptor, number: u32, value: &Value<'_>) {
        let Some(field) = message.fields.iter().find(|field| field.number == number) else {
            return self.add(None, format!("unknown field {number}"));
        };
        let is_empty = match value {
            Value::Bytes(bytes) => bytes.is_empty(),
            Value::Number { is_zero } => *is_zero,
        };
        if !is_in_text(message.name, field.name) {
            if !is_empty {
                self.add(Some(field.name), "HLO text has no such field".to_owned());
            }
            return;
        }
        if let (Value::Bytes(inside), Some(inner)) = (value, (field.message)())
            && self.path.len() < MAX_DEPTH
        {
            self.path.push(field.name);
            self.message(inside, inner);
            self.path.pop();
        }
    }

    fn add(&mut self, field: Option<&str>, reason: String) {
        let mut path = self.path.join(".");
        if let Some(field) = field {
            path.push('.');
            path.push_str(field);
        }
        if self.found.len() < MAX_WARNINGS {
            *self.found.entry((path, reason)).or_default() += 1;
        }
    }
}
