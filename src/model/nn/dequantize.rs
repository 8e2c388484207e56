use crate::{
    base::{DType, Literal, codebook},
    hlo::{PadDim, SliceDim, Value},
    templates::{Instantiator, TemplateError, template_args},
};

/// A quantized weight of one layer. Of the values that a byte holds, the first is in the high nibble; blocks run along the
/// flattened weight, and arrays with one element for each block have the dims [`block_dims`].
#[derive(Clone, Copy)]
pub enum QuantizedValues<'b> {
    /// 4-bit NormalFloat.
    Nf4 {
        /// `u8`, two values each.
        codes: Value<'b>,
        /// `f32`, one for each block of 64.
        absmax: Value<'b>,
    },
    /// 4-bit NormalFloat with double quantization.
    Nf4Double {
        /// `u8`, two values each.
        codes: Value<'b>,
        /// `u8`, one for each block of 64.
        absmax: Value<'b>,
        /// `f32`, one for each block of 256 elements of `absmax`.
        nested_absmax: Value<'b>,
        /// `f32[]`.
        offset: Value<'b>,
    },
    /// 8-bit integers with a scale for each output feature.
    Int8 {
        /// `s8[out, in]`.
        codes: Value<'b>,
        /// `f32[out]`.
        scale: Value<'b>,
    },
    /// Half-quadratic quantization to 4 bits.
    Hqq4 {
        /// `u8`, two values each.
        codes: Value<'b>,
        /// `f32`, one for each block of 64.
        scale: Value<'b>,
        /// `f32`, one for each block of 64.
        zero: Value<'b>,
    },
    /// GGUF's Q4_0.
    Q4_0 {
        /// `u8`, two values each.
        codes: Value<'b>,
        /// `f16`, one for each block of 32.
        scale: Value<'b>,
    },
    /// GGUF's Q8_0.
    Q8_0 {
        /// `s8[out, in]`.
        codes: Value<'b>,
        /// `f16`, one for each block of 32.
        scale: Value<'b>,
    },
}

/// The weight `t[output, input]` that `weight` stores; `output` and `input` may have several dims. No gradient flows to its
/// codes.
///
/// # Errors
/// If a template is invalid.
pub fn dequantize<'b>(
    templates: &Instantiator<'_>,
    t: DType,
    weight: QuantizedValues<'b>,
    output: &[usize],
    input: &[usize],
) -> Result<Value<'b>, TemplateError> {
    let dims = [output, input].concat();
    let blockwise = |name, block, codes, rest: &[Value<'b>]| {
        let template = Blockwise { templates, name, t, block };
        template.call(&dims, codes, rest)
    };
    match weight {
        QuantizedValues::Nf4 { codes, absmax } => {
            blockwise("nf4_dequant", 64, codes, &[absmax, table(codes, &codebook::NF4)])
        }
        QuantizedValues::Nf4Double { codes, absmax, nested_absmax, offset } => {
            let nested = Blockwise { templates, name: "nested_absmax_dequant", t: DType::F32, block: 256 };
            let dynamic = table(absmax, &codebook::dynamic_map());
            let absmax = nested.call(&absmax.dims(), absmax, &[nested_absmax, offset, dynamic])?;
            blockwise("nf4_dequant", 64, codes, &[absmax, table(codes, &codebook::NF4)])
        }
        QuantizedValues::Int8 { codes, scale } => {
            let out_dims: Vec<usize> = (0..output.len()).collect();
            let args = template_args! { t, out: output.to_vec(), in: input.to_vec(), out_dims };
            templates.call(codes.builder(), "int8_dequant", args, &[codes, scale])
        }
        QuantizedValues::Hqq4 { codes, scale, zero } => blockwise("hqq4_dequant", 64, codes, &[scale, zero]),
        QuantizedValues::Q4_0 { codes, scale } => blockwise("q4_0_dequant", 32, codes, &[scale]),
        QuantizedValues::Q8_0 { codes, scale } => blockwise("q8_0_dequant", 32, codes, &[scale]),
    }
}

fn table<'b>(beside: Value<'b>, values: &[f32]) -> Value<'b> {
    beside.builder().constant(Literal::f32s([values.len()], values)).named("table")
}

/// A template that dequantizes whole blocks.
#[derive(Clone, Copy)]
struct Blockwise<'m> {
    templates: &'m Instantiator<'m>,
    name: &'static str,
    t: DType,
    block: usize,
}

impl Blockwise<'_> {
    /// The values `t[dims]` of `codes`, and of `rest`: arrays with one element for each block, then others. A last block that
    /// is not full is completed with zeros.
    fn call<'b>(
        self,
        dims: &[usize],
        codes: Value<'b>,
        rest: &[Value<'b>],
    ) -> Result<Value<'b>, TemplateError> {
        let numel: usize = dims.iter().product();
        let BlockDims { blocks, kept, split } = BlockDims::of(dims, self.block);
        let whole: usize = split.iter().product();
        if whole != numel {
            let stored: usize = codes.dims().iter().product();
            let missing = stored * whole / numel - stored;
            let edge = PadDim { high: i64::try_from(missing).unwrap_or(i64::MAX), ..PadDim::default() };
            let zero = codes.builder().scalar(codes.dtype(), 0.0);
            let codes = codes.reshape(&[stored]).pad(zero, &[edge]);
            let values = self.call(&[whole], codes, rest)?;
            return Ok(values.slice(&[SliceDim { start: 0, limit: numel, stride: 1 }]).reshape(dims));
        }
        let nibble_dim = dims.len();
        let codes_dims: Vec<usize> = (0..nibble_dim).collect();
        let kept_dims: Vec<usize> = (0..kept.len()).collect();
        let args = template_args! {
            t: self.t, dims: dims.to_vec(), codes: codes.dims(), codes_dims, nibble_dim, index_dim: nibble_dim,
            blocks, kept, kept_dims, split,
        };
        self.templates.call(codes.builder(), self.name, args, &[&[codes], rest].concat())
    }
}

/// The dims of an array with one element for each block of `block` elements of an array of `dims`, row-major: `dims` without
/// the elements of a block, which takes all of the innermost dims and divides the next. Blocks that do not align with dims, or
/// that do not divide the array, are numbered in one dim.
pub fn block_dims(dims: &[usize], block: usize) -> Vec<usize> {
    BlockDims::of(dims, block).blocks
}

/// How the elements of an array follow from those of an array with one element for each block.
struct BlockDims {
    /// The dims of the latter.
    blocks: Vec<usize>,
    /// These without the dims that lie within a block.
    kept: Vec<usize>,
    /// `kept`, then the elements of a block: the dims of the former with one dim divided in two.
    split: Vec<usize>,
}

impl BlockDims {
    fn of(dims: &[usize], block: usize) -> Self {
        let mut rest = block;
        for (at, &size) in dims.iter().enumerate().rev() {
            if rest.is_multiple_of(size) {
                rest /= size;
            } else if size.is_multiple_of(rest) {
                let kept = [&dims[..at], &[size / rest]].concat();
                let blocks = [&kept[..], &vec![1; dims.len() - at - 1]].concat();
                let split = [&kept[..], &[rest], &dims[at + 1..]].concat();
                return Self { blocks, kept, split };
            } else {
                let count = dims.iter().product::<usize>().div_ceil(block);
                return Self { blocks: vec![count], kept: vec![count], split: vec![count, block] };
            }
        }
        Self { blocks: vec![1; dims.len()], kept: vec![], split: dims.to_vec() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_takes_the_innermost_dims() {
        let check = |dims: &[usize], block, expect: &[usize]| assert_eq!(block_dims(dims, block), expect);
        check(&[4096, 32, 128], 64, &[4096, 32, 2]);
        check(&[64, 4, 16], 64, &[64, 1, 1]);
        check(&[64, 4, 8], 64, &[32, 1, 1]);
        check(&[4096, 32, 2], 256, &[1024, 1, 1]);
        check(&[48, 5], 256, &[1]);
        check(&[3, 176], 64, &[9]);
        check(&[4, 8], 64, &[1, 1]);
    }
}
