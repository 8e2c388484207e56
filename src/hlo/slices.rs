//! Parts of a value: the beginning of it, and windows along one dimension.

use super::{PadDim, SliceDim, Value};
use crate::base::DType;

impl<'b> Value<'b> {
    /// The same with `value` after it, up to the sizes `dims`; itself if those are the sizes it has.
    #[track_caller]
    pub fn pad_to(self, dims: &[usize], value: f64) -> Self {
        let sizes = self.dims();
        if sizes == dims {
            return self;
        }
        let edges = sizes.iter().zip(dims);
        let edges = edges.map(|(&from, &to)| PadDim { high: to as i64 - from as i64, ..PadDim::default() });
        self.pad(self.builder().scalar(self.dtype(), value), &edges.collect::<Vec<_>>())
    }

    /// The beginning of it, of the sizes `dims`; itself if those are the sizes it has.
    #[track_caller]
    pub fn truncate_to(self, dims: &[usize]) -> Self {
        if self.dims() == dims {
            return self;
        }
        let ranges = dims.iter().map(|&limit| SliceDim { start: 0, limit, stride: 1 });
        self.slice(&ranges.collect::<Vec<_>>())
    }

    /// `size` entries along `dim`, the first of them `first`, `s32[]`.
    #[track_caller]
    pub fn dynamic_slice_in_dim(self, dim: usize, first: Self, size: usize) -> Self {
        let mut sizes = self.dims();
        sizes[dim] = size;
        self.dynamic_slice(&corner(dim, first, sizes.len()), &sizes)
    }

    /// The same with `part` in the location of as many entries along `dim`, from `first` on.
    #[track_caller]
    pub fn dynamic_update_slice_in_dim(self, dim: usize, first: Self, part: Self) -> Self {
        self.dynamic_update_slice(part, &corner(dim, first, self.dims().len()))
    }

    /// The entry `index`, `s32[]`, along the first dimension, without that dimension.
    #[track_caller]
    pub fn dynamic_index_in_dim(self, index: Self) -> Self {
        self.dynamic_slice_in_dim(0, index, 1).reshape(&self.dims()[1..])
    }
}

fn corner<'b>(dim: usize, first: Value<'b>, rank: usize) -> Vec<Value<'b>> {
    let zero = first.builder().scalar(DType::S32, 0.0);
    (0..rank).map(|at| if at == dim { first } else { zero }).collect()
}
