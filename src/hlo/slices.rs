//! Padding, truncation, and slices along one dimension.

use super::{PadDim, SliceDim, Value};
use crate::base::DType;

impl<'b> Value<'b> {
    /// Pads with `value` at the end of each dimension, up to the sizes `dims`.
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

    /// Truncates each dimension to the sizes `dims`.
    #[track_caller]
    pub fn truncate_to(self, dims: &[usize]) -> Self {
        if self.dims() == dims {
            return self;
        }
        let ranges = dims.iter().map(|&limit| SliceDim { start: 0, limit, stride: 1 });
        self.slice(&ranges.collect::<Vec<_>>())
    }

    /// Slices `size` indices along `dim` from `first`, `s32[]`, on.
    #[track_caller]
    pub fn dynamic_slice_in_dim(self, dim: usize, first: Self, size: usize) -> Self {
        let mut sizes = self.dims();
        sizes[dim] = size;
        self.dynamic_slice(&start_indices(dim, first, sizes.len()), &sizes)
    }

    /// Replaces the slice along `dim` that starts at `first`, `s32[]`, with `update`.
    #[track_caller]
    pub fn dynamic_update_slice_in_dim(self, dim: usize, first: Self, update: Self) -> Self {
        self.dynamic_update_slice(update, &start_indices(dim, first, self.dims().len()))
    }

    /// Slices index `index`, `s32[]`, of the first dimension, and removes that dimension.
    #[track_caller]
    pub fn dynamic_index_in_dim(self, index: Self) -> Self {
        self.dynamic_slice_in_dim(0, index, 1).reshape(&self.dims()[1..])
    }
}

/// Start indices of a slice that starts at `first` along `dim` and at zero along the others.
fn start_indices<'b>(dim: usize, first: Value<'b>, rank: usize) -> Vec<Value<'b>> {
    let zero = first.builder().scalar(DType::S32, 0.0);
    (0..rank).map(|at| if at == dim { first } else { zero }).collect()
}
