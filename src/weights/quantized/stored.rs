use std::{ops::Range, sync::Arc};

use super::super::{
    mapping::Mapping,
    quantized::{blockwise::Matrix, parts::dequantize},
};
use crate::base::Scheme;

/// The parts of a weight that is quantized in its file.
#[derive(Clone, Debug)]
pub(crate) struct StoredParts {
    pub scheme: Scheme,
    pub matrix: Matrix,
    /// In the order of [`Scheme::parts`], each of the size that the scheme gives it.
    pub parts: Vec<PartBytes>,
}

/// The bytes of a part.
#[derive(Clone, Debug)]
pub(crate) enum PartBytes {
    /// In a mapped file; inside the mapping.
    Mapped(Arc<Mapping>, Range<usize>),
    /// In memory: a scalar, or one for each row.
    Owned(Vec<u8>),
}

impl PartBytes {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Mapped(file, range) => &file.bytes()[range.clone()],
            Self::Owned(bytes) => bytes,
        }
    }
}

impl StoredParts {
    /// The bytes of every part, in order.
    pub(crate) fn slices(&self) -> Vec<&[u8]> {
        self.parts.iter().map(PartBytes::bytes).collect()
    }

    /// The values `range` of the flattened weight.
    pub(crate) fn decode(&self, range: Range<usize>, out: &mut [f32]) {
        dequantize(self.scheme, self.matrix.columns, &self.slices(), range, out);
    }

    /// Releases the memory of mapped pages.
    pub(crate) fn release(&self) {
        for part in &self.parts {
            if let PartBytes::Mapped(file, range) = part {
                file.release(range.clone());
            }
        }
    }
}
