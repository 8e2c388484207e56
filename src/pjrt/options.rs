#![allow(unsafe_code)]

use std::collections::BTreeMap;

use prost::Message;
use serde::{Deserialize, Serialize};

use super::{
    call::{slice, text},
    error::PjrtError,
    sys::{self, CStruct, named_value_type},
};
use crate::base::Partitioner;

/// Value of a named option of a client or topology, or of a named attribute.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum NamedValue {
    /// A string.
    String(String),
    /// An integer.
    Int64(i64),
    /// A list of integers.
    Int64List(Vec<i64>),
    /// A single-precision float.
    Float(f32),
    /// A boolean.
    Bool(bool),
}

/// Options as structures of the C API, which point into `options`.
pub(super) fn encode(options: &[(&str, NamedValue)]) -> Vec<sys::NamedValue> {
    use named_value_type as kind;
    use sys::NamedValueUnion as Value;
    options
        .iter()
        .map(|(name, value)| {
            let (type_, value, value_size) = match value {
                NamedValue::String(text) => {
                    (kind::STRING, Value { string: text.as_ptr().cast() }, text.len())
                }
                NamedValue::Int64(number) => (kind::INT64, Value { int64: *number }, 1),
                NamedValue::Int64List(list) => {
                    (kind::INT64_LIST, Value { int64_list: list.as_ptr() }, list.len())
                }
                NamedValue::Float(number) => (kind::FLOAT, Value { float: *number }, 1),
                NamedValue::Bool(truth) => (kind::BOOL, Value { bool: *truth }, 1),
            };
            let name_size = name.len();
            sys::NamedValue {
                name: name.as_ptr().cast(),
                name_size,
                type_,
                value,
                value_size,
                ..CStruct::new()
            }
        })
        .collect()
}

/// Copies a plugin's list. Values of types that the header does not define are omitted.
///
/// # Safety
/// `values` is null, or `count` values from it are readable, with what they point to.
pub(super) unsafe fn decode(values: *const sys::NamedValue, count: usize) -> BTreeMap<String, NamedValue> {
    use named_value_type as kind;
    // SAFETY: the caller's promise is the same.
    let values = unsafe { slice(values, count) };
    let decode_one = |entry: &sys::NamedValue| {
        // SAFETY: `type_` says which member of the union is valid, and the unit of `value_size`.
        let value = unsafe {
            match entry.type_ {
                kind::STRING => NamedValue::String(text(entry.value.string, entry.value_size)),
                kind::INT64 => NamedValue::Int64(entry.value.int64),
                kind::INT64_LIST => {
                    NamedValue::Int64List(slice(entry.value.int64_list, entry.value_size).to_vec())
                }
                kind::FLOAT => NamedValue::Float(entry.value.float),
                kind::BOOL => NamedValue::Bool(entry.value.bool),
                _ => return None,
            }
        };
        // SAFETY: the name is as readable as the entry.
        Some((unsafe { text(entry.name, entry.name_size) }, value))
    };
    values.iter().filter_map(decode_one).collect()
}

/// Format of a program's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProgramFormat {
    /// A serialized `xla.HloModuleProto`.
    Hlo,
    /// StableHLO, as MLIR text or bytecode.
    Mlir,
}

impl ProgramFormat {
    /// Both formats.
    pub const ALL: [Self; 2] = [Self::Hlo, Self::Mlir];

    /// The name in the C API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hlo => "hlo",
            Self::Mlir => "mlir",
        }
    }
}

/// A program to compile.
#[derive(Clone, Copy, Debug)]
pub struct PjrtProgram<'a> {
    /// Format of the bytes.
    pub format: ProgramFormat,
    /// The serialized program.
    pub bytes: &'a [u8],
}

impl PjrtProgram<'_> {
    /// Structure of the C API, which points into `self`.
    pub(super) fn to_c(self) -> sys::Program {
        let format = self.format.name();
        sys::Program {
            code: self.bytes.as_ptr().cast_mut().cast(),
            code_size: self.bytes.len(),
            format: format.as_ptr().cast(),
            format_size: format.len(),
            ..CStruct::new()
        }
    }
}

/// The value of an XLA debug option such as `xla_gpu_autotune_level`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum OptionValue {
    /// A string, or the name of an enumerator.
    String(String),
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A double-precision float.
    Double(f64),
}

/// Options of a compilation: one replica in `num_partitions` partitions.
///
/// # Examples
/// ```
/// use hloom::pjrt::{CompileOptions, OptionValue};
///
/// let mut options = CompileOptions::for_devices(8);
/// options.overrides.insert("xla_dump_to".into(), OptionValue::String("dump".into()));
/// assert!(!options.to_bytes()?.is_empty());
///
/// let error = CompileOptions::for_devices(0).to_bytes().unwrap_err();
/// assert_eq!(error.to_string(), "expected at least one partition, found 0");
/// # Ok::<(), hloom::pjrt::PjrtError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompileOptions {
    /// Number of partitions, each on its own device; at least one.
    pub num_partitions: usize,
    /// Partitioner of the program.
    pub partitioner: Partitioner,
    /// Device id of each partition. If empty, the plugin assigns devices, possibly in a better order than by id.
    pub devices: Vec<i32>,
    /// XLA debug options by name, without leading dashes.
    pub overrides: BTreeMap<String, OptionValue>,
}

impl Default for CompileOptions {
    fn default() -> Self {
        Self::for_devices(1)
    }
}

impl CompileOptions {
    /// Default options for a number of devices.
    pub fn for_devices(num_partitions: usize) -> Self {
        Self {
            num_partitions,
            partitioner: Partitioner::default(),
            devices: Vec::new(),
            overrides: BTreeMap::new(),
        }
    }

    /// The serialized `xla.CompileOptionsProto`.
    ///
    /// # Errors
    /// [`PjrtError::NoPartitions`] if there is no partition, with which a plugin would abort the process.
    pub fn to_bytes(&self) -> Result<Vec<u8>, PjrtError> {
        let num_partitions = match i64::try_from(self.num_partitions) {
            Ok(0) | Err(_) => return Err(PjrtError::NoPartitions),
            Ok(count) => count,
        };
        let build = proto::ExecutableBuildOptions {
            // Zero would pin the program to the first device.
            device_ordinal: -1,
            num_replicas: 1,
            num_partitions,
            use_spmd_partitioning: true,
            device_assignment: (!self.devices.is_empty()).then(|| device_assignment(&self.devices)),
            use_shardy_partitioner: self.partitioner == Partitioner::Shardy,
        };
        let overrides = self.overrides.iter().map(|(name, value)| {
            use proto::override_value::Value;
            let value = match value.clone() {
                OptionValue::String(text) => Value::String(text),
                OptionValue::Bool(truth) => Value::Bool(truth),
                OptionValue::Int(number) => Value::Int(number),
                OptionValue::Double(number) => Value::Double(number),
            };
            (name.clone(), proto::OverrideValue { value: Some(value) })
        });
        let options = proto::CompileOptions {
            executable_build_options: Some(build),
            env_option_overrides: overrides.collect(),
        };
        Ok(options.encode_to_vec())
    }
}

/// Assigns the partitions of one replica to devices.
fn device_assignment(devices: &[i32]) -> proto::DeviceAssignment {
    let partition = |&id: &i32| proto::ComputationDevice { replica_device_ids: vec![i64::from(id)] };
    proto::DeviceAssignment {
        replica_count: 1,
        computation_count: devices.len() as i32,
        computation_devices: devices.iter().map(partition).collect(),
    }
}

/// The fields in use of XLA's `compile_options.proto`.
mod proto {
    use std::collections::BTreeMap;

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct CompileOptions {
        #[prost(message, optional, tag = "3")]
        pub executable_build_options: Option<ExecutableBuildOptions>,
        #[prost(btree_map = "string, message", tag = "7")]
        pub env_option_overrides: BTreeMap<String, OverrideValue>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct ExecutableBuildOptions {
        #[prost(int64, tag = "1")]
        pub device_ordinal: i64,
        #[prost(int64, tag = "4")]
        pub num_replicas: i64,
        #[prost(int64, tag = "5")]
        pub num_partitions: i64,
        #[prost(bool, tag = "6")]
        pub use_spmd_partitioning: bool,
        #[prost(message, optional, tag = "9")]
        pub device_assignment: Option<DeviceAssignment>,
        #[prost(bool, tag = "19")]
        pub use_shardy_partitioner: bool,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct DeviceAssignment {
        #[prost(int32, tag = "1")]
        pub replica_count: i32,
        #[prost(int32, tag = "2")]
        pub computation_count: i32,
        #[prost(message, repeated, tag = "3")]
        pub computation_devices: Vec<ComputationDevice>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct ComputationDevice {
        #[prost(int64, repeated, tag = "1")]
        pub replica_device_ids: Vec<i64>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct OverrideValue {
        #[prost(oneof = "override_value::Value", tags = "1, 2, 3, 4")]
        pub value: Option<override_value::Value>,
    }

    pub(super) mod override_value {
        #[derive(Clone, PartialEq, prost::Oneof)]
        pub(crate) enum Value {
            #[prost(string, tag = "1")]
            String(String),
            #[prost(bool, tag = "2")]
            Bool(bool),
            #[prost(int64, tag = "3")]
            Int(i64),
            #[prost(double, tag = "4")]
            Double(f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_values_survive_the_c_form() {
        let options = [
            ("text", NamedValue::String("a b".into())),
            ("int", NamedValue::Int64(-3)),
            ("list", NamedValue::Int64List(vec![1, 2, 3])),
            ("empty", NamedValue::Int64List(Vec::new())),
            ("float", NamedValue::Float(0.5)),
            ("bool", NamedValue::Bool(true)),
        ];
        let encoded = encode(&options);
        // SAFETY: `encoded` points into `options`, which is alive.
        let decoded = unsafe { decode(encoded.as_ptr(), encoded.len()) };
        let expected: BTreeMap<_, _> = options.map(|(name, value)| (name.to_owned(), value)).into();
        assert_eq!(decoded, expected);
    }

    #[test]
    fn compile_options_have_the_field_numbers_of_xla() {
        let mut options = CompileOptions::for_devices(8);
        options.partitioner = Partitioner::Shardy;
        options.overrides.insert("o".into(), OptionValue::Bool(true));
        let bytes = options.to_bytes().unwrap();
        let build = [8, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1, 32, 1, 40, 8, 48, 1, 152, 1, 1];
        let over = [0x3a, 7, 10, 1, b'o', 18, 2, 16, 1];
        assert_eq!(bytes, [&[0x1a, 20][..], &build, &over].concat());
    }

    #[test]
    fn no_partitions_is_an_error() {
        let error = CompileOptions::for_devices(0).to_bytes().unwrap_err();
        assert_eq!(error.to_string(), "expected at least one partition, found 0");
    }
}
