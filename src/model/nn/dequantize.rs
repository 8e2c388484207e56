use crate::{
    base::{DType, Literal, Scheme, codebook},
    hlo::{PadDim, SliceDim, Value},
    templates::{Instantiator, TemplateError, template_args},
};

/// The weight `t[output, input]` of one layer that `parts` store, in the order of [`Scheme::parts`]; `output` and `input` may
/// have several dims. Codes have the dims of the weight, with the innermost halved where a byte holds two values, arrays with
/// one element for each block those of [`block_dims`], others one dim. No gradient flows to codes.
///
/// # Errors
/// If a template is invalid.
///
/// # Panics
/// If there are not as many parts as the scheme has.
pub fn dequantize<'b>(
    templates: &Instantiator<'_>,
    t: DType,
    scheme: Scheme,
    parts: &[Value<'b>],
    output: &[usize],
    input: &[usize],
) -> Result<Value<'b>, TemplateError> {
    let dims = [output, input].concat();
    let codes = parts[0];
    let blockwise = |name, rest: &[Value<'b>]| {
        let block = scheme.block().unwrap_or(1);
        Blockwise { templates, name, t, block }.call(&dims, codes, rest)
    };
    match (scheme, parts) {
        (Scheme::Nf4, &[_, absmax]) => blockwise("nf4_dequant", &[absmax, table(codes, &codebook::NF4)]),
        (Scheme::Nf4Double, &[_, absmax, nested_absmax, offset]) => {
            let nested = Blockwise { templates, name: "nested_absmax_dequant", t: DType::F32, block: 256 };
            let dynamic = table(absmax, &codebook::dynamic_map());
            let nested_absmax = nested_absmax.reshape(&block_dims(&absmax.dims(), nested.block));
            let absmax = nested.call(&absmax.dims(), absmax, &[nested_absmax, offset, dynamic])?;
            blockwise("nf4_dequant", &[absmax, table(codes, &codebook::NF4)])
        }
        (Scheme::Int8, _) => {
            let out_dims: Vec<usize> = (0..output.len()).collect();
            let args = template_args! { t, out: output.to_vec(), in: input.to_vec(), out_dims };
            templates.call(codes.builder(), "int8_dequant", args, parts)
        }
        (Scheme::Hqq4, &[_, scale, zero]) => blockwise("hqq4_dequant", &[scale, zero]),
        (Scheme::Q4_0, &[_, scale]) => blockwise("q4_0_dequant", &[scale]),
        (Scheme::Q8_0, &[_, scale]) => blockwise("q8_0_dequant", &[scale]),
        _ => panic!("{} has {} parts, found {}", scheme.name(), scheme.parts().len(), parts.len()),
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
