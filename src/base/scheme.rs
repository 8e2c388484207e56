use super::{DType, named_enum};

named_enum! {
    /// A format of quantized weights. Blocks run along the flattened weight `[out, in]`; a last block may be incomplete.
    pub enum Scheme {
        /// 4-bit NormalFloat in blocks of 64, as bitsandbytes stores it.
        Nf4 = "nf4";
        /// 4-bit NormalFloat with double quantization: 8-bit absmax in blocks of 256.
        Nf4Double = "nf4-double";
        /// 8-bit integers with a scale for each output feature.
        Int8 = "int8";
        /// Half-quadratic quantization to 4 bits in groups of 64 (Badri and Shaji, 2023).
        Hqq4 = "hqq4";
        /// Q4_0 of GGUF: 4-bit integers in blocks of 32.
        Q4_0 = "q4_0";
        /// Q8_0 of GGUF: 8-bit integers in blocks of 32.
        Q8_0 = "q8_0";
    }
}

named_enum! {
    /// One of the arrays that store a quantized weight.
    pub enum Part {
        /// The integers.
        Codes = "codes";
        /// The largest magnitude of each block.
        Absmax = "absmax";
        /// The largest magnitude of each block of `absmax`, which is 8-bit codes then.
        NestedAbsmax = "nested_absmax";
        /// What is added to every dequantized `absmax`.
        Offset = "offset";
        /// What codes are multiplied by.
        Scale = "scale";
        /// What is subtracted from codes.
        Zero = "zero";
    }
}

/// A part with its layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartFormat {
    /// The part.
    pub part: Part,
    /// Its element type.
    pub dtype: DType,
    /// What one element of it stands for.
    pub extent: Extent,
}

/// What one element of a part stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// One value.
    Value,
    /// Two values, the first in the high nibble.
    Pair,
    /// A block of this many values.
    Block(usize),
    /// The values of an output feature.
    Row,
    /// The weight.
    Weight,
}

impl Scheme {
    /// Its parts, in the order in which programs take them.
    pub const fn parts(self) -> &'static [PartFormat] {
        use Extent::{Block, Pair, Row, Value, Weight};
        use Part::{Absmax, Codes, NestedAbsmax, Offset, Scale, Zero};
        const fn format(part: Part, dtype: DType, extent: Extent) -> PartFormat {
            PartFormat { part, dtype, extent }
        }
        match self {
            Self::Nf4 => const { &[format(Codes, DType::U8, Pair), format(Absmax, DType::F32, Block(64))] },
            Self::Nf4Double => {
                const {
                    &[
                        format(Codes, DType::U8, Pair),
                        format(Absmax, DType::U8, Block(64)),
                        format(NestedAbsmax, DType::F32, Block(64 * 256)),
                        format(Offset, DType::F32, Weight),
                    ]
                }
            }
            Self::Int8 => const { &[format(Codes, DType::S8, Value), format(Scale, DType::F32, Row)] },
            Self::Hqq4 => {
                const {
                    &[
                        format(Codes, DType::U8, Pair),
                        format(Scale, DType::F32, Block(64)),
                        format(Zero, DType::F32, Block(64)),
                    ]
                }
            }
            Self::Q4_0 => const { &[format(Codes, DType::U8, Pair), format(Scale, DType::F16, Block(32))] },
            Self::Q8_0 => const { &[format(Codes, DType::S8, Value), format(Scale, DType::F16, Block(32))] },
        }
    }

    /// Number of values with a common scale or `absmax`; `None` if it is that of a row.
    pub fn block(self) -> Option<usize> {
        self.parts().iter().find_map(|format| match format.extent {
            Extent::Block(block) => Some(block),
            _ => None,
        })
    }

    /// The layout of a part; `None` if the scheme has no such part.
    pub fn format(self, part: Part) -> Option<PartFormat> {
        self.parts().iter().copied().find(|format| format.part == part)
    }
}

impl Extent {
    /// Number of elements that a weight of `rows` output features and `columns` input features needs.
    pub const fn count(self, rows: usize, columns: usize) -> usize {
        match self {
            Self::Value => rows * columns,
            Self::Pair => (rows * columns).div_ceil(2),
            Self::Block(block) => (rows * columns).div_ceil(block),
            Self::Row => rows,
            Self::Weight => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_matrix_are_as_large_as_published() {
        let bits = |scheme: Scheme| {
            let bytes = |format: &PartFormat| format.extent.count(4096, 4096) * format.dtype.bytes();
            let bytes: usize = scheme.parts().iter().map(bytes).sum();
            (bytes * 8) as f64 / (4096.0 * 4096.0)
        };
        assert_eq!(bits(Scheme::Nf4), 4.5);
        // QLoRA, section 3: double quantization takes 8/64 + 32/(64 * 256) bits, and here the offset.
        let double = 4.0 + 8.0 / 64.0 + 32.0 / (64.0 * 256.0) + 32.0 / (4096.0 * 4096.0);
        assert!((bits(Scheme::Nf4Double) - double).abs() < 1e-12);
        assert_eq!(bits(Scheme::Hqq4), 5.0);
        assert_eq!((bits(Scheme::Q4_0), bits(Scheme::Q8_0)), (4.5, 8.5));
        assert_eq!(Scheme::Int8.format(Part::Scale).map(|format| format.extent), Some(Extent::Row));
        assert_eq!((Scheme::Int8.format(Part::Absmax), Scheme::Int8.block()), (None, None));
        assert_eq!((Scheme::Nf4Double.block(), Scheme::Q8_0.block()), (Some(64), Some(32)));
    }
}
