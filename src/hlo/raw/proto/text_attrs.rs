//! A list of attributes in text, and the attributes of products, convolutions, gathers and scatters.

use std::fmt::{Display, Write};

use super::{
    escape::push_quoted,
    messages_data::{DotDimensionNumbers, TensorSparsityConfig, Window},
    messages_instr::HloInstructionProto,
    number,
    text_shape::join,
};
use crate::{base::Diagnostic, hlo::raw::words};

/// Attributes that are appended to the text of an instruction.
pub(super) struct Attrs<'o>(pub &'o mut String);

impl Attrs<'_> {
    pub(super) fn value(&mut self, name: &str, value: impl Display) {
        let _ = write!(self.0, ", {name}={value}");
    }

    pub(super) fn flag(&mut self, name: &str, value: bool) {
        if value {
            self.value(name, value);
        }
    }

    /// `{0,1}`
    pub(super) fn list<T: ToString>(&mut self, name: &str, list: &[T]) {
        self.value(name, format_args!("{{{}}}", join(list)));
    }

    pub(super) fn list_if_any<T: ToString>(&mut self, name: &str, list: &[T]) {
        if !list.is_empty() {
            self.list(name, list);
        }
    }

    /// `{%a, %b}`
    pub(super) fn names(&mut self, name: &str, names: &[&str]) {
        let names: Vec<String> = names.iter().map(|name| format!("%{name}")).collect();
        self.value(name, format_args!("{{{}}}", names.join(", ")));
    }

    /// Text in quotes, if there is any.
    pub(super) fn quoted(&mut self, name: &str, text: &[u8]) {
        if !text.is_empty() {
            self.always_quoted(name, text);
        }
    }

    pub(super) fn always_quoted(&mut self, name: &str, text: &[u8]) {
        let mut quoted = String::new();
        push_quoted(&mut quoted, text);
        self.value(name, quoted);
    }

    /// A word without quotes, if there is one.
    pub(super) fn word(&mut self, name: &str, word: &str) -> Result<(), Diagnostic> {
        if word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            if !word.is_empty() {
                self.value(name, word);
            }
            return Ok(());
        }
        Err(format!("expected a word of letters and digits in {name}, found {word:?}").into())
    }

    /// The name of a number.
    pub(super) fn one_of(&mut self, name: &str, names: &[&str], number: i32) -> Result<(), Diagnostic> {
        let found = usize::try_from(number).ok().and_then(|number| names.get(number));
        let found = found.ok_or_else(|| Diagnostic::from(format!("unknown value of {name}: {number}")))?;
        self.value(name, found);
        Ok(())
    }

    /// Dimension numbers of products, and their precision.
    pub(super) fn push_dot(&mut self, instr: &HloInstructionProto) -> Result<(), Diagnostic> {
        if let Some(dims) = &instr.dot_dimension_numbers {
            self.dot_dims(dims);
        }
        if let Some(ragged) = &instr.ragged_dot_dimension_numbers {
            if let Some(dims) = &ragged.dot_dimension_numbers {
                self.dot_dims(dims);
            }
            self.list_if_any("lhs_ragged_dims", &ragged.lhs_ragged_dimensions);
            self.list_if_any("rhs_group_dims", &ragged.rhs_group_dimensions);
        }
        if instr.opcode != "convolution" && instr.opcode != "custom-call" {
            self.push_precision(instr)?;
        }
        Ok(())
    }

    fn dot_dims(&mut self, dims: &DotDimensionNumbers) {
        self.list_if_any("lhs_batch_dims", &dims.lhs_batch_dimensions);
        self.list("lhs_contracting_dims", &dims.lhs_contracting_dimensions);
        self.list_if_any("rhs_batch_dims", &dims.rhs_batch_dimensions);
        self.list("rhs_contracting_dims", &dims.rhs_contracting_dimensions);
    }

    fn push_precision(&mut self, instr: &HloInstructionProto) -> Result<(), Diagnostic> {
        let Some(config) = &instr.precision_config else { return Ok(()) };
        if config.operand_precision.iter().any(|&precision| precision != 0) {
            let name = |&precision: &i32| {
                let name = usize::try_from(precision).ok().and_then(|number| PRECISIONS.get(number).copied());
                name.ok_or_else(|| Diagnostic::from(format!("unknown precision: {precision}")))
            };
            let names: Vec<&str> = config.operand_precision.iter().map(name).collect::<Result<_, _>>()?;
            self.list("operand_precision", &names);
        }
        if config.algorithm != 0 {
            self.one_of("algorithm", words::DOT_ALGORITHMS, config.algorithm)?;
        }
        Ok(())
    }

    /// Window, labels, groups and precision of convolutions, and of what else has them.
    pub(super) fn push_convolution(&mut self, instr: &HloInstructionProto) -> Result<(), Diagnostic> {
        if let Some(window) = instr.window.as_ref().filter(|window| !window.dimensions.is_empty()) {
            self.value("window", window_text(window));
        }
        if instr.convolution_dimension_numbers.is_some() {
            let labels = dim_labels(instr);
            self.value("dim_labels", labels?);
        }
        for (name, count) in [
            ("feature_group_count", instr.feature_group_count),
            ("batch_group_count", instr.batch_group_count),
        ] {
            if !matches!(count, 0 | 1) {
                self.value(name, count);
            }
        }
        if instr.conv_kind != 0 {
            self.one_of("convolution_kind", words::CONVOLUTION_KINDS, instr.conv_kind)?;
        }
        if instr.opcode == "convolution" || instr.opcode == "custom-call" {
            self.push_precision(instr)?;
        }
        if let Some(sparsity) = &instr.sparsity_config {
            let side = |name: &str, config: &Option<TensorSparsityConfig>| {
                let config = config.as_ref()?;
                let (nonzero, block) = (config.num_non_zero, config.block_size);
                let (dim, stride) = (config.dimension, config.stride);
                Some(format!("{name}={{sparsity={nonzero}x{block} dimension={dim} stride={stride}}}"))
            };
            let sides: Vec<String> =
                [side("lhs", &sparsity.lhs), side("rhs", &sparsity.rhs)].into_iter().flatten().collect();
            if !sides.is_empty() {
                self.value("sparsity_config", format_args!("{{{}}}", sides.join(" ")));
            }
        }
        Ok(())
    }

    /// Dimension numbers of gathers and scatters.
    pub(super) fn push_gather(&mut self, instr: &HloInstructionProto) {
        if let Some(dims) = &instr.gather_dimension_numbers {
            self.list("offset_dims", &dims.offset_dims);
            self.list("collapsed_slice_dims", &dims.collapsed_slice_dims);
            self.list("start_index_map", &dims.start_index_map);
            self.list_if_any("operand_batching_dims", &dims.operand_batching_dims);
            self.list_if_any("start_indices_batching_dims", &dims.start_indices_batching_dims);
            self.value("index_vector_dim", dims.index_vector_dim);
            self.list("slice_sizes", &instr.gather_slice_sizes);
        } else {
            self.list_if_any("slice_sizes", &instr.gather_slice_sizes);
        }
        if let Some(dims) = &instr.scatter_dimension_numbers {
            self.list("update_window_dims", &dims.update_window_dims);
            self.list("inserted_window_dims", &dims.inserted_window_dims);
            self.list("scatter_dims_to_operand_dims", &dims.scatter_dims_to_operand_dims);
            self.list_if_any("input_batching_dims", &dims.input_batching_dims);
            self.list_if_any("scatter_indices_batching_dims", &dims.scatter_indices_batching_dims);
            self.value("index_vector_dim", dims.index_vector_dim);
        }
    }

    /// How exact a function has to be, where it is not the default.
    pub(super) fn push_accuracy(&mut self, instr: &HloInstructionProto) -> Result<(), Diagnostic> {
        let Some(accuracy) = &instr.result_accuracy else { return Ok(()) };
        if let Some(tolerance) = &accuracy.tolerance {
            let (atol, rtol) = (number::double(tolerance.atol), number::double(tolerance.rtol));
            let text = format!("{{tolerance={{atol={atol},rtol={rtol},ulps={}}}}}", tolerance.ulps);
            self.value("result_accuracy", text);
            return Ok(());
        }
        match accuracy.mode {
            None | Some(0) => Ok(()),
            Some(1) => {
                self.value("result_accuracy", "{mode=highest}");
                Ok(())
            }
            Some(mode) => Err(format!("unknown mode of result_accuracy: {mode}").into()),
        }
    }
}

/// Names of `PrecisionConfig.Precision`.
pub(super) const PRECISIONS: &[&str] = &["default", "high", "highest"];

/// `{size=3x3 stride=2x2 pad=1_1x1_1}`, without what is the default in every dimension.
fn window_text(window: &Window) -> String {
    let dims = &window.dimensions;
    let joined = |values: Vec<String>| values.join("x");
    let numbers = |value: fn(&super::messages_data::WindowDimension) -> i64| {
        dims.iter().map(|dim| value(dim).to_string()).collect::<Vec<_>>()
    };
    let mut text = format!("{{size={}", joined(numbers(|dim| dim.size)));
    if dims.iter().any(|dim| dim.stride != 1) {
        let _ = write!(text, " stride={}", joined(numbers(|dim| dim.stride)));
    }
    if dims.iter().any(|dim| dim.padding_low != 0 || dim.padding_high != 0) {
        let pads = dims.iter().map(|dim| format!("{}_{}", dim.padding_low, dim.padding_high)).collect();
        let _ = write!(text, " pad={}", joined(pads));
    }
    if dims.iter().any(|dim| dim.base_dilation != 1) {
        let _ = write!(text, " lhs_dilate={}", joined(numbers(|dim| dim.base_dilation)));
    }
    if dims.iter().any(|dim| dim.window_dilation != 1) {
        let _ = write!(text, " rhs_dilate={}", joined(numbers(|dim| dim.window_dilation)));
    }
    if dims.iter().any(|dim| dim.window_reversal) {
        let _ = write!(text, " rhs_reversal={}", joined(numbers(|dim| i64::from(dim.window_reversal))));
    }
    text.push('}');
    text
}

/// `b01f_01io->b01f`. Positions without a meaning are `?`.
fn dim_labels(instr: &HloInstructionProto) -> Result<String, Diagnostic> {
    let Some(dims) = &instr.convolution_dimension_numbers else { return Ok(String::new()) };
    let array = |first: (i64, char), second: (i64, char), spatial: &[i64]| {
        let rank = spatial.iter().copied().chain([first.0, second.0]).max().unwrap_or(0).saturating_add(1);
        // A label of a spatial dimension is one digit.
        if spatial.len() > 10 || !(0..=64).contains(&rank) {
            return Err(Diagnostic::from("expected at most 10 spatial dimensions of a convolution"));
        }
        let mut labels = vec!['?'; rank as usize];
        let digits = spatial.iter().copied().zip('0'..='9');
        for (position, label) in [first, second].into_iter().chain(digits) {
            let found = usize::try_from(position).ok().and_then(|position| labels.get_mut(position));
            let found = found.filter(|label| **label == '?');
            let message = "expected each dimension of a convolution to have one meaning";
            *found.ok_or_else(|| Diagnostic::from(message))? = label;
        }
        Ok(labels.into_iter().collect::<String>())
    };
    let input = array(
        (dims.input_batch_dimension, 'b'),
        (dims.input_feature_dimension, 'f'),
        &dims.input_spatial_dimensions,
    )?;
    let kernel = array(
        (dims.kernel_input_feature_dimension, 'i'),
        (dims.kernel_output_feature_dimension, 'o'),
        &dims.kernel_spatial_dimensions,
    )?;
    let output = array(
        (dims.output_batch_dimension, 'b'),
        (dims.output_feature_dimension, 'f'),
        &dims.output_spatial_dimensions,
    )?;
    Ok(format!("{input}_{kernel}->{output}"))
}
