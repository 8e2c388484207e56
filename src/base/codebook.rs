//! The tables that bitsandbytes quantizes with.

/// The 16 values of 4-bit NormalFloat, by code (Dettmers et al., arXiv:2305.14314, appendix E).
#[rustfmt::skip]
pub const NF4: [f32; 16] = [
    -1.0, -0.696_192_8, -0.525_073_05, -0.394_917_5, -0.284_441_38, -0.184_773_43, -0.091_050_036, 0.0,
    0.079_580_3, 0.160_930_2, 0.246_112_3, 0.337_915_24, 0.440_709_83, 0.562_617, 0.722_956_84, 1.0,
];

/// The 256 values of the 8-bit dynamic type, by code: bitsandbytes' `create_dynamic_map`. Each of seven decades has twice the
/// values of the one below it, in the middles of equal intervals; zero and one complete them.
pub fn dynamic_map() -> Vec<f32> {
    let decade = |exponent: i32| {
        let intervals = 1_usize << exponent;
        let scale = 10_f64.powi(exponent - 6) as f32;
        let middle = move |at: usize| scale * ((boundary(at, intervals) + boundary(at + 1, intervals)) / 2.0);
        (0..intervals).map(middle)
    };
    let positive: Vec<f32> = (0..7).flat_map(decade).collect();
    let mut values: Vec<f32> = positive.iter().flat_map(|&value| [value, -value]).chain([0.0, 1.0]).collect();
    values.sort_by(f32::total_cmp);
    values
}

/// Boundary `at` of equal intervals between 0.1 and 1: `torch.linspace(0.1, 1, intervals + 1)[at]`, which counts from the
/// nearer end and rounds once.
fn boundary(at: usize, intervals: usize) -> f32 {
    let step = (1.0 - 0.1) / intervals as f32;
    if at < intervals.div_ceil(2) {
        step.mul_add(at as f32, 0.1)
    } else {
        (-step).mul_add((intervals - at) as f32, 1.0)
    }
}
