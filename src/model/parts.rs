//! How devices store frozen parameters: whole, or in the parts of a quantized weight.

use std::fmt;

use super::{NamedDims, Param, ParamSpec, nn::block_dims, sizes};
use crate::{
    base::{DType, Extent, Part, PartFormat, Scheme},
    mesh::Dim,
};

/// How frozen parameters are stored; a step computes with them in its own type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BaseStorage {
    /// All of them in this element type.
    Plain(DType),
    /// The weights of linears quantized; embedding, head, norms and biases in the compute type.
    Quantized(Scheme),
}

impl BaseStorage {
    /// The scheme by which a parameter is quantized.
    pub fn scheme(self, param: Param) -> Option<Scheme> {
        match (self, param) {
            (Self::Quantized(scheme), Param::Weight(_)) => Some(scheme),
            _ => None,
        }
    }
}

impl fmt::Display for BaseStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(dtype) => dtype.fmt(f),
            Self::Quantized(scheme) => f.pad(scheme.name()),
        }
    }
}

/// A frozen parameter as devices store it: whole, or one part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PartId {
    /// The parameter.
    pub param: Param,
    /// Its part, if it is quantized.
    pub part: Option<Part>,
}

impl PartId {
    /// A parameter that is one array.
    pub const fn whole(param: Param) -> Self {
        Self { param, part: None }
    }
}

impl fmt::Display for PartId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.param.fmt(f)?;
        self.part.map_or(Ok(()), |part| write!(f, ".{}", part.name()))
    }
}

/// An array that stores a frozen parameter or a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartSpec {
    /// Which one.
    pub id: PartId,
    /// Its element type.
    pub dtype: DType,
    /// Named dimensions, the layers first if it is stacked. Those of a part are the parameter's, each with the size that is
    /// left of it; [`Dim::Packed`] where the elements follow no dimension of the parameter.
    pub dims: NamedDims,
}

impl ParamSpec {
    /// The parameter as one array of `dtype`.
    pub fn whole(&self, dtype: DType) -> PartSpec {
        PartSpec { id: PartId::whole(self.param), dtype, dims: self.dims() }
    }

    /// The arrays that store it in a step that computes in `dtype`.
    pub fn parts(&self, storage: BaseStorage, dtype: DType) -> Vec<PartSpec> {
        let Some(scheme) = storage.scheme(self.param) else {
            let dtype = if let BaseStorage::Plain(stored) = storage { stored } else { dtype };
            return vec![self.whole(dtype)];
        };
        let part = |&PartFormat { part, dtype, extent }: &PartFormat| {
            let layers = self.layers.map(|layers| (Dim::Layers, layers));
            let dims = layers.into_iter().chain(self.part_dims(part, extent)).collect();
            PartSpec { id: PartId { param: self.param, part: Some(part) }, dtype, dims }
        };
        scheme.parts().iter().map(part).collect()
    }

    /// The dimensions of a part of one layer.
    fn part_dims(&self, part: Part, extent: Extent) -> NamedDims {
        let [rows, columns] = &self.stored[..] else { unreachable!("only matrices are quantized") };
        let mut dims = self.stored.concat();
        let whole = sizes(&dims);
        let count = extent.count(product(rows), product(columns));
        match extent {
            // Elements for 16384 values each are few: every device has all of them.
            _ if part == Part::NestedAbsmax => vec![(Dim::Packed, count)],
            Extent::Value => dims,
            Extent::Pair => match dims.last_mut() {
                Some((_, innermost)) if innermost.is_multiple_of(2) => {
                    *innermost /= 2;
                    dims
                }
                _ => vec![(Dim::Packed, count)],
            },
            Extent::Block(block) => {
                let blocks = block_dims(&whole, block);
                if blocks.len() != dims.len() {
                    return vec![(Dim::Packed, count)];
                }
                dims.iter().zip(blocks).map(|(&(dim, _), size)| (dim, size)).collect()
            }
            Extent::Row => rows.clone(),
            Extent::Weight => vec![],
        }
    }
}

fn product(dims: &NamedDims) -> usize {
    dims.iter().map(|&(_, size)| size).product()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Config, Linear, base_params};

    fn check(model: &str, linear: Linear, scheme: Scheme, expect: &[&str]) {
        let config = Config::builtin(model).unwrap();
        let params = base_params(&config);
        let spec = params.iter().find(|spec| spec.param == Param::Weight(linear)).unwrap();
        let text = |part: PartSpec| {
            let dims: Vec<String> = part.dims.iter().map(|(dim, size)| format!("{dim} {size}")).collect();
            format!("{} {}[{}]", part.id, part.dtype, dims.join(", "))
        };
        let parts = spec.parts(BaseStorage::Quantized(scheme), DType::BF16);
        assert_eq!(parts.into_iter().map(text).collect::<Vec<_>>(), expect, "{model} {linear} {scheme:?}");
    }

    #[test]
    fn parts_have_the_dims_of_their_parameter() {
        check(
            "llama3.1-8b",
            Linear::Query,
            Scheme::Nf4Double,
            &[
                "q_proj.codes u8[layers 32, heads 32, head_dim 128, embed 2048]",
                "q_proj.absmax u8[layers 32, heads 32, head_dim 128, embed 64]",
                "q_proj.nested_absmax f32[layers 32, packed 1024]",
                "q_proj.offset f32[layers 32]",
            ],
        );
        check(
            "llama3.1-8b",
            Linear::Output,
            Scheme::Hqq4,
            &[
                "o_proj.codes u8[layers 32, embed 4096, heads 32, head_dim 64]",
                "o_proj.scale f32[layers 32, embed 4096, heads 32, head_dim 2]",
                "o_proj.zero f32[layers 32, embed 4096, heads 32, head_dim 2]",
            ],
        );
        check(
            "tiny",
            Linear::Output,
            Scheme::Nf4,
            &[
                "o_proj.codes u8[layers 2, embed 64, heads 4, head_dim 8]",
                "o_proj.absmax f32[layers 2, embed 64, heads 1, head_dim 1]",
            ],
        );
        check(
            "llama3.1-8b",
            Linear::Key,
            Scheme::Int8,
            &[
                "k_proj.codes s8[layers 32, kv_heads 8, head_dim 128, embed 4096]",
                "k_proj.scale f32[layers 32, kv_heads 8, head_dim 128]",
            ],
        );
    }

    #[test]
    fn what_is_not_quantized_is_one_array() {
        let config = Config::builtin("qwen2.5-0.5b").unwrap();
        for spec in base_params(&config) {
            let quantized = matches!(spec.param, Param::Weight(_));
            let parts = spec.parts(BaseStorage::Quantized(Scheme::Nf4), DType::F32);
            assert_eq!(parts.len(), if quantized { 2 } else { 1 }, "{}", spec.param);
            assert_eq!(parts[0].dtype, if quantized { DType::U8 } else { DType::F32 }, "{}", spec.param);
            assert_eq!(spec.parts(BaseStorage::Plain(DType::BF16), DType::F32), [spec.whole(DType::BF16)]);
        }
    }
}
