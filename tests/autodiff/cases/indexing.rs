use hloom::{
    base::{ArrayShape, DType, Literal},
    hlo::{GatherDims, Opcode, ScatterDims, Value},
};

use super::{Case, case};
use crate::autodiff::Inputs;

pub fn dynamic() -> Vec<Case> {
    // A start past the end moves back until the box fits.
    fn starts<'b>(i: &Inputs<'b>, at: [i32; 2]) -> [Value<'b>; 2] {
        at.map(|at| i.fixed(Literal::s32s([], &[at])))
    }
    let places = [[0, 0], [1, 2], [9, -4]];
    let slices = places.map(|at| {
        case(Opcode::DynamicSlice, format!("at {at:?}"), move |i| {
            let x = i.any(&[3, 4]);
            x.dynamic_slice(&starts(i, at), &[2, 2])
        })
    });
    let updates = places.map(|at| {
        case(Opcode::DynamicUpdateSlice, format!("at {at:?}"), move |i| {
            let (x, update) = (i.any(&[3, 4]), i.any(&[2, 2]));
            x.dynamic_update_slice(update, &starts(i, at))
        })
    });
    let others = [
        case(Opcode::DynamicUpdateSlice, "of zeros", |i| {
            let zeros = i.b.full(ArrayShape::new(DType::F64, [3]), 0.0);
            zeros.dynamic_update_slice(i.any(&[2]), &[i.b.scalar(DType::S32, 1.0)])
        }),
        case(Opcode::DynamicUpdateSlice, "with a constant", |i| {
            let ones = i.b.full(ArrayShape::new(DType::F64, [2]), 1.0);
            i.any(&[3]).dynamic_update_slice(ones, &[i.b.scalar(DType::S32, 0.0)])
        }),
    ];
    slices.into_iter().chain(updates).chain(others).collect()
}

pub fn gathers() -> Vec<Case> {
    let gather = |what: &str, x: &'static [usize], bound: usize, indices: &'static [usize], dims| {
        case(Opcode::Gather, what, move |i| i.any(x).gather(i.indices(bound, indices), dims))
    };
    vec![
        gather(
            "of rows, some twice",
            &[4, 3],
            4,
            &[2, 5],
            GatherDims {
                offset_dims: vec![2],
                collapsed_slice_dims: vec![0],
                start_index_map: vec![0],
                index_vector_dim: 2,
                slice_sizes: vec![1, 3],
            },
        ),
        gather(
            "of columns",
            &[3, 4],
            4,
            &[5, 1],
            GatherDims {
                offset_dims: vec![0],
                collapsed_slice_dims: vec![1],
                start_index_map: vec![1],
                index_vector_dim: 1,
                slice_sizes: vec![3, 1],
            },
        ),
        gather(
            "of overlapping boxes",
            &[4, 4],
            3,
            &[3, 2],
            GatherDims {
                offset_dims: vec![0, 2],
                collapsed_slice_dims: vec![],
                start_index_map: vec![0, 1],
                index_vector_dim: 1,
                slice_sizes: vec![2, 2],
            },
        ),
        gather(
            "of elements, their components turned",
            &[3, 3],
            3,
            &[2, 4],
            GatherDims {
                offset_dims: vec![],
                collapsed_slice_dims: vec![0, 1],
                start_index_map: vec![1, 0],
                index_vector_dim: 0,
                slice_sizes: vec![1, 1],
            },
        ),
    ]
}

pub fn scatters() -> Vec<Case> {
    let scatter = |what: &str,
                   bound: usize,
                   indices: &'static [usize],
                   updates: &'static [usize],
                   dims: ScatterDims| {
        case(Opcode::Scatter, what, move |i| {
            let (x, indices, updates) = (i.any(&[4, 4]), i.indices(bound, indices), i.any(updates));
            (x * x).scatter_add(indices, updates * updates, dims)
        })
    };
    vec![
        scatter(
            "of rows, some twice",
            4,
            &[5],
            &[5, 4],
            ScatterDims {
                update_window_dims: vec![1],
                inserted_window_dims: vec![0],
                scatter_dims_to_operand_dims: vec![0],
                index_vector_dim: 1,
            },
        ),
        scatter(
            "of columns",
            4,
            &[2, 1],
            &[4, 2],
            ScatterDims {
                update_window_dims: vec![0],
                inserted_window_dims: vec![1],
                scatter_dims_to_operand_dims: vec![1],
                index_vector_dim: 1,
            },
        ),
        scatter(
            "of overlapping boxes",
            3,
            &[3, 2],
            &[2, 3, 2],
            ScatterDims {
                update_window_dims: vec![0, 2],
                inserted_window_dims: vec![],
                scatter_dims_to_operand_dims: vec![0, 1],
                index_vector_dim: 1,
            },
        ),
        scatter(
            "of elements, their components turned",
            4,
            &[2, 5],
            &[5],
            ScatterDims {
                update_window_dims: vec![],
                inserted_window_dims: vec![0, 1],
                scatter_dims_to_operand_dims: vec![1, 0],
                index_vector_dim: 0,
            },
        ),
        case(Opcode::Scatter, "into zeros", |i| {
            let zeros = i.b.full(ArrayShape::new(DType::F64, [4]), 0.0);
            zeros.scatter_add(
                i.indices(4, &[6]),
                i.any(&[6]),
                ScatterDims {
                    inserted_window_dims: vec![0],
                    scatter_dims_to_operand_dims: vec![0],
                    index_vector_dim: 1,
                    ..ScatterDims::default()
                },
            )
        }),
    ]
}
