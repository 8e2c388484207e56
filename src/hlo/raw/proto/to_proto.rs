//! Writing of serialized modules.

use prost::Message;

use super::{messages::HloModuleProtoWithConfig, to_header::is_setting, to_module};
use crate::{
    base::{Diagnostic, Diagnostics, LineIndex},
    hlo::raw::module::{Module, location},
};

/// The message that holds a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtoFile {
    /// `HloModuleProto`.
    Module,
    /// `HloModuleProtoWithConfig`, which also has settings such as `num_partitions`.
    ModuleWithConfig,
}

/// A serialized module.
#[derive(Debug)]
pub struct ToProto {
    /// The message.
    pub bytes: Vec<u8>,
    /// A warning for each attribute of the module that the message has no field for.
    pub warnings: Diagnostics,
}

/// Serializes a module. Instructions and computations get the ids that XLA gives them. Names that two computations have get
/// numbers, as XLA requires them to be unique in a module.
///
/// # Errors
/// Constants whose elements the text leaves out, attributes that `HloInstructionProto` has no field for, and values of
/// attributes that XLA does not know, with line and column.
pub fn to_proto(module: &Module, file: ProtoFile) -> Result<ToProto, Diagnostics> {
    let lines = LineIndex::new(&module.text);
    let located = |at| location(&module.file, &module.text, &lines, at);
    let (proto, config) = to_module::module(module, 0).map_err(|errors| {
        let errors = errors.into_iter().map(|error| {
            let diagnostic = Diagnostic::error(located(error.at), error.message);
            Diagnostic { hint: error.hint, ..diagnostic }
        });
        Diagnostics(errors.collect())
    })?;
    if file == ProtoFile::ModuleWithConfig {
        let file = HloModuleProtoWithConfig { hlo_module: Some(proto), config: Some(config) };
        return Ok(ToProto { bytes: file.encode_to_vec(), warnings: Diagnostics::default() });
    }
    let settings = module.attrs.iter().filter(|attr| attr.name.is_some_and(is_setting));
    let warnings = settings.map(|attr| {
        let message = format!("HloModuleProto has no field for `{}`", module.spelling(attr));
        let warning = Diagnostic::warning(located(attr.spelling.start()), message);
        warning.with_hint("HloModuleProtoWithConfig has it")
    });
    Ok(ToProto { bytes: proto.encode_to_vec(), warnings: Diagnostics(warnings.collect()) })
}
